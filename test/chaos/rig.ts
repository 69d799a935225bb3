import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';

/** A process that is restarted whenever it exits. */
export class Tenacious {
  readonly #entry: string[];
  readonly #environment: Record<string, string>;
  #process: ServerProcess | undefined;
  #starting: Promise<void>;
  #isWanted = true;
  /** How long the latest start took until the process was ready (ms). It shows how busy the machine is. */
  startMs = 0;

  constructor(entry: string[], environment: Record<string, string>) {
    this.#entry = entry;
    this.#environment = environment;
    this.#starting = this.#start();
  }

  async #start(): Promise<void> {
    const { DATABASE_URL = '', ...others } = this.#environment;
    const begun = performance.now();
    // It may die before it is ready.
    const process = await startServerProcess(DATABASE_URL, others, this.#entry).catch(() => undefined);
    if (!process) return this.#isWanted ? this.#start() : undefined;
    this.startMs = performance.now() - begun;
    this.#process = process;
    void process.ended.then(() => this.#restart());
  }

  #restart(): void {
    this.#process = undefined;
    if (this.#isWanted) this.#starting = this.#start();
  }

  /** URL of the process; undefined while it does not serve. */
  get url(): string | undefined {
    return this.#process?.url;
  }

  /** Resolves when the process has reported that it is ready, after restarts if necessary. */
  async ready(): Promise<void> {
    for (let awaited; awaited !== this.#starting;) {
      awaited = this.#starting;
      await awaited;
    }
  }

  signal(signal: NodeJS.Signals): void {
    void this.#process?.stop(signal);
  }

  /** Stops the process for good. */
  async stop(): Promise<void> {
    this.#isWanted = false;
    await this.#starting;
    this.signal('SIGCONT');
    await this.#process?.stop();
  }
}
