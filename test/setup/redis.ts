import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll } from 'vitest';

const folders = (process.env['PATH'] ?? '').split(':');
/** Redis or Valkey, whichever is installed. */
const executable = ['redis-server', 'valkey-server']
  .flatMap((name) => folders.map((folder) => join(folder, name)))
  .find(existsSync);

/** For `describe.skipIf`: there is neither. */
export const noRedis = executable === undefined;
/** What to end the name of such a group of tests with: nothing where they can run. */
export const needRedis = noRedis ? '(needs redis-server: apt-get install redis-server)' : '';

const running = new Set<ChildProcess>();

// At the top, so that it belongs to the file that imports this, not to the test that starts a server.
afterAll(() => {
  for (const child of running) child.kill('SIGKILL');
});

/** A real server on loopback, in memory only, that can be hurt. */
export class RedisProcess {
  readonly #port: number;
  #child: ChildProcess | undefined;
  #ended: Promise<unknown> | undefined;

  private constructor(port: number) {
    this.#port = port;
  }

  static async start(): Promise<RedisProcess> {
    const server = new RedisProcess(await freePort());
    await server.start();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** Starts it on its port, empty; resolves when it answers. */
  async start(): Promise<void> {
    const inMemory = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
    this.#child = spawn(executable!, ['--port', `${this.#port}`, ...inMemory], { stdio: 'ignore' });
    running.add(this.#child);
    this.#ended = once(this.#child, 'exit');
    while ((await this.command('PING').catch(() => 'down')) !== 'PONG') await sleep(20);
  }

  /** Ends it, frozen or not; resolves when it has gone, also when it went before. */
  async kill(): Promise<void> {
    this.#child!.kill('SIGKILL');
    await this.#ended;
  }

  /** Stops it from doing anything; its connections stay, and new ones are taken by the system. */
  freeze(): void {
    this.#child!.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child!.kill('SIGCONT');
  }

  /** Runs one command on it. */
  async command(name: string, ...args: string[]): Promise<unknown> {
    const client = new Redis(this.url, { lazyConnect: true, retryStrategy: () => null });
    client.on('error', () => undefined);
    try {
      await client.connect();
      return await client.call(name, ...args);
    } finally {
      client.disconnect();
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
