import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { checkLogLine } from '../setup/captured-logs.ts';
import { nodeEnvironment } from '../setup/cli.ts';

const root = join(import.meta.dirname, '..', '..');

/** A process of the service that is restarted whenever it exits. */
export class Tenacious {
  readonly #entry: string[];
  readonly #environment: Record<string, string>;
  #child: ChildProcess | undefined;
  #isWanted = true;
  #saidOrEnded: Promise<unknown> = Promise.resolve();
  #url: string | undefined;
  /** How long the latest start took until the process was ready (ms). It shows how busy the machine is. */
  startMs = 0;
  /** Number of exits that nobody asked for. */
  restarts = 0;
  /** The lines that the process logged to stderr at the level of its own errors. */
  readonly complaints: string[] = [];

  constructor(entry: string[], environment: Record<string, string>) {
    this.#entry = entry;
    this.#environment = environment;
    this.#start();
  }

  #start(): void {
    const child = spawn(process.execPath, this.#entry, {
      cwd: root,
      env: { ...nodeEnvironment, PATH: process.env['PATH'], ...this.#environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const begun = performance.now();
    createInterface(child.stderr).on('line', (line) => {
      checkLogLine(line);
      this.complaints.push(line);
    });
    const said = once(createInterface(child.stdout), 'line').then(([line]) => {
      this.startMs = performance.now() - begun;
      return (this.#url = (JSON.parse(line as string) as { url?: string }).url);
    });
    // A process that dies before it is ready never writes a line.
    this.#saidOrEnded = Promise.race([said, once(child, 'exit')]);
    this.#saidOrEnded.catch(() => undefined);
    child.once('exit', () => {
      this.#url = undefined;
      if (!this.#isWanted) return;
      this.restarts += 1;
      this.#start();
    });
  }

  /** URL of the process; undefined while it does not serve. */
  get url(): string | undefined {
    return this.#url;
  }

  /** Resolves when the process has reported that it is ready, after restarts if necessary. */
  async ready(): Promise<void> {
    for (let awaited; awaited !== this.#saidOrEnded;) {
      awaited = this.#saidOrEnded;
      await awaited;
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Stops the process for good. Returns its exit code. */
  async stop(): Promise<number | null> {
    this.#isWanted = false;
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 60_000);
    const [code] = (await ended) as [number | null];
    clearTimeout(timer);
    return code;
  }
}
