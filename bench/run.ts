import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '..');

/** A server under load, in a process of its own. */
export interface Server {
  url: string;
  pid: number;
  /** Processor time that the process has used so far, in µs: of all its threads, of the system on its behalf too. */
  cpu(): Promise<number>;
  /** Ends the process; resolves when it has ended. */
  stop(): Promise<void>;
}

/** Starts a script that prints `{"url": …}` when it listens. */
export async function startServer(entry: string[], environment: Record<string, string> = {}): Promise<Server> {
  const child = spawn(process.execPath, ['--import', join(import.meta.dirname, 'cpu.ts'), ...entry], {
    cwd: root,
    env: { PATH: process.env['PATH'], ...environment },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const [line] = (await once(createInterface(child.stdout!), 'line')) as [string];
  const cpu = async () => {
    child.send('cpu');
    const [used] = (await once(child, 'message')) as [number];
    return used;
  };
  const { url } = JSON.parse(line) as { url: string };
  const stop = async () => {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  };
  return { url, pid: child.pid!, cpu, stop };
}

/** Requests answered, how many a second, and latencies in ms. */
export interface Load {
  requests: number;
  rate: number;
  p50: number;
  p99: number;
  /** Answered with anything but 2xx, or not at all. */
  failed: number;
}

export interface Request {
  method: 'GET' | 'POST';
  path: string;
  body?: object;
  headers?: Record<string, string>;
}

/** The same as `tryLoad`; any answer but 2xx is an error. */
export async function load(...how: Parameters<typeof tryLoad>): Promise<Load> {
  const result = await tryLoad(...how);
  if (result.failed > 0) throw new Error(`${result.failed} requests to ${how[0]} failed`);
  return result;
}

/** Loads a server with `callers` at once for some seconds. */
export async function tryLoad(
  base: string,
  requests: Request[],
  callers: number,
  seconds: number,
  headers: Record<string, string> = {},
): Promise<Load> {
  const options = {
    url: base,
    connections: callers,
    duration: seconds,
    requests: requests.map(({ method, path, body, headers: own }) => ({
      method,
      path: new URL(base).pathname.replace(/\/$/, '') + path,
      headers: { ...headers, ...own, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })),
  };
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(import.meta.dirname, 'load.ts'),
    JSON.stringify(options),
  ]);
  return JSON.parse(stdout) as Load;
}

/** Requests of which each is sent once. */
export interface EachOptions {
  /** URL before the paths. */
  base: string;
  /** How many are sent at the same time. */
  callers: number;
  requests: {
    method: string;
    path: string;
    body?: object;
    headers?: Record<string, string>;
    /** The expected status; any 2xx if it is absent. */
    status?: number;
  }[];
}

/** Sends each request once. A response with another status than the expected one is an error. */
export async function loadEach(options: EachOptions): Promise<Load> {
  const child = execFile(process.execPath, [join(import.meta.dirname, 'each.ts')]);
  child.stderr!.pipe(process.stderr);
  child.stdin!.end(JSON.stringify(options));
  const result = JSON.parse(await text(child.stdout!)) as Load;
  if (result.failed > 0)
    throw new Error(`${result.failed} requests failed, such as ${JSON.stringify(options.requests[0])}`);
  return result;
}

/** The value in the middle. */
export const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

/** Measures several things in turn, `rounds` times, so that what disturbs the machine disturbs all; the median of each. */
export async function alternate<K extends string>(
  rounds: number,
  measures: Record<K, () => Promise<number>>,
): Promise<Record<K, number>> {
  const results = await inTurn(rounds, measures);
  const medians = Object.entries<number[]>(results).map(([name, values]) => [name, median(values)]);
  return Object.fromEntries(medians) as Record<K, number>;
}

/** The same, every result of each. */
export async function inTurn<K extends string, T>(
  rounds: number,
  measures: Record<K, () => Promise<T>>,
): Promise<Record<K, T[]>> {
  const names = Object.keys(measures) as K[];
  const results = Object.fromEntries(names.map((name) => [name, [] as T[]])) as Record<K, T[]>;
  for (let round = 0; round < rounds; round += 1) for (const name of names) results[name].push(await measures[name]());
  return results;
}
