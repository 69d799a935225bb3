import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { atEnd } from './at-end.ts';
import { checkLogLine } from './captured-logs.ts';
import { nodeEnvironment } from './cli.ts';

/** A server in its own process, as operators run it. */
export interface ServerProcess {
  url: string;
  /** The complete line that the process printed when it was ready. */
  started: unknown;
  pid: number;
  /** Sends a signal and waits for the end of the process. Returns its exit code, or null after SIGKILL. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  ended: Promise<number | null>;
  /** The lines that the process has written to stderr so far. */
  log: string[];
}

/** Checks a line of a server's stderr. Prints it if it is an error or not a line of the log. */
function readLog(line: string): void {
  checkLogLine(line);
  if (!/^\{"level":[1-4]0,/.test(line)) process.stderr.write(`${line}\n`);
}

/**
 * Configuration with which requests are answered however slow the machine is, and however many a test sends at once. All come
 * from one address.
 */
export const patient = {
  OVERLOAD_MS: '0',
  RATE_LIMITS: 'off',
  REQUEST_TIMEOUT_MS: '60000',
  DATABASE_QUEUE_MS: '60000',
  DATABASE_QUEUE_LENGTH: '10000',
};

const root = join(import.meta.dirname, '..', '..');

/**
 * Starts `serve --json` on a free port and waits until it listens. The process ends with the tests of the file at the
 * latest.
 * @param entry another script to run instead, which prints the same line
 */
export async function startServerProcess(
  databaseUrl: string,
  environment: Record<string, string> = {},
  entry: string[] = ['src/cli.ts', 'serve', '--json'],
): Promise<ServerProcess> {
  const child = spawn(process.execPath, entry, {
    cwd: root,
    env: {
      ...nodeEnvironment,
      PATH: process.env['PATH'],
      LOG_LEVEL: 'trace',
      ...patient,
      PORT: '0',
      DATABASE_URL: databaseUrl,
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const log: string[] = [];
  createInterface(child.stderr).on('line', (line) => {
    log.push(line);
    readLog(line);
  });
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const stop = (signal: NodeJS.Signals = 'SIGTERM') => {
    child.kill(signal);
    return ended;
  };
  atEnd(() => stop('SIGKILL'));
  const line = await Promise.race([
    once(createInterface(child.stdout), 'line').then(([text]) => text as string),
    ended.then((code) => Promise.reject(new Error(`the server ended with ${code} before it listened`))),
  ]);
  const started = JSON.parse(line) as { url: string };
  return { url: started.url, started, pid: child.pid!, stop, ended, log };
}
