import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { atEnd } from './at-end.ts';
import { freePort } from './free-port.ts';

const folders = (process.env['PATH'] ?? '').split(':');
/** Path of the installed Redis or Valkey server. */
const executable = ['redis-server', 'valkey-server']
  .flatMap((name) => folders.map((folder) => join(folder, name)))
  .find(existsSync);

/** True if neither is installed; for `describe.skipIf`. */
export const noRedis = executable === undefined;
/** Suffix for the name of a test group that needs Redis; empty if it is installed. */
export const needRedis = noRedis ? '(needs redis-server: apt-get install redis-server)' : '';

/** A real Redis server on loopback, in memory only, that tests can kill and freeze. */
export class RedisProcess {
  readonly #port: number;
  #child: ChildProcess | undefined;
  #ended: Promise<unknown> | undefined;

  private constructor(port: number) {
    this.#port = port;
  }

  static async start(): Promise<RedisProcess> {
    const server = new RedisProcess(await freePort());
    atEnd(() => server.kill());
    await server.start();
    return server;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** Starts the server on its port, empty. Resolves when it responds. */
  async start(): Promise<void> {
    const inMemory = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
    this.#child = spawn(executable!, ['--port', `${this.#port}`, ...inMemory], { stdio: 'ignore' });
    this.#ended = once(this.#child, 'exit');
    while ((await this.command('PING').catch(() => 'down')) !== 'PONG') await sleep(20);
  }

  /** Kills the server, frozen or not. Resolves when it has ended, also if it ended before. */
  async kill(): Promise<void> {
    this.#child!.kill('SIGKILL');
    await this.#ended;
  }

  /** Freezes the server. Its connections stay open, and the system still accepts new ones. */
  freeze(): void {
    this.#child!.kill('SIGSTOP');
  }

  thaw(): void {
    this.#child!.kill('SIGCONT');
  }

  /** Runs one Redis command. */
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
