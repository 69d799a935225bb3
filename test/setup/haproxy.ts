import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';

/** True if HAProxy is not installed; for `describe.skipIf`. */
export const noHaproxy = spawnSync('haproxy', ['-v'], { stdio: 'ignore' }).status !== 0;
/** Suffix for the name of a test group that needs HAProxy; empty if it is installed. */
export const needHaproxy = noHaproxy ? '(needs haproxy: apt-get install haproxy)' : '';

/** Returns the text of `deploy/haproxy.cfg`. */
export const suppliedHaproxy = (): string =>
  readFileSync(join(import.meta.dirname, '..', '..', 'deploy', 'haproxy.cfg'), 'utf8');

/** A running HAProxy. */
export interface Haproxy {
  url: string;
  /** Returns the targets (`host:port`) that HAProxy sends requests to, because their health checks succeed. */
  ready(): Promise<string[]>;
  /** What it has logged until now. */
  log(): string;
  /** Its metrics, in the text format of Prometheus. */
  metrics(): Promise<string>;
  stop(): Promise<void>;
}

/**
 * Starts HAProxy with `deploy/haproxy.cfg`. Changes only the addresses in it, and what `edit` changes.
 * @param targets host and port of each instance of the service, running or not
 */
export async function startHaproxy(targets: string[], edit = (cfg: string): string => cfg): Promise<Haproxy> {
  const folder = await mkdtemp(join(tmpdir(), 'haproxy-'));
  const [port, healthPort, metricsPort] = [await freePort(), await freePort(), await freePort()];
  const socket = join(folder, 'socket');
  const servers = targets.map((target) => `  server ${target} ${target}`).join('\n');
  const cfg = edit(suppliedHaproxy())
    .replace(/^ {2}server-template .*$/m, servers)
    .replace('bind :8080', `bind 127.0.0.1:${port}`)
    .replace('bind :8405', `bind 127.0.0.1:${metricsPort}`)
    .replace('bind 127.0.0.1:8404', `bind 127.0.0.1:${healthPort}`)
    .replace(/^global$/m, `global\n  stats socket ${socket}`);
  await writeFile(join(folder, 'haproxy.cfg'), cfg);
  const child = spawn('haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')], { stdio: ['ignore', 'ignore', 'pipe'] });
  let logged = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (logged += chunk));
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  const isUp = () =>
    fetch(`http://127.0.0.1:${healthPort}/`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isUp())) {
    if (child.exitCode !== null) throw new Error(`haproxy ended with ${child.exitCode}`);
    await sleep(20);
  }
  return {
    url: `http://127.0.0.1:${port}`,
    ready: () => readyTargets(socket),
    log: () => logged,
    metrics: async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
    stop,
  };
}

/** Reads which servers are up from HAProxy's administration socket. */
async function readyTargets(socket: string): Promise<string[]> {
  const connection = connect(socket);
  connection.end('show stat\n');
  const rows = (await text(connection)).split('\n').map((line) => line.split(','));
  const status = rows[0]!.indexOf('status');
  return rows.filter((row) => row[0] === 'api' && row[1] !== 'BACKEND' && row[status] === 'UP').map((row) => row[1]!);
}
