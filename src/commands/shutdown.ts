import closeWithGrace from 'close-with-grace';
import type { FastifyBaseLogger } from 'fastify';
import { stopTracing } from '../tracing/tracing.ts';
import type { OpenServices } from './database.ts';

/** Stops everything that `serve` or `work` has started, when the start fails or the process gets a signal. */
export class Shutdown {
  readonly #services: OpenServices;
  readonly #stops: (() => Promise<void>)[] = [];

  constructor(services: OpenServices) {
    this.#services = services;
  }

  /** Adds a function that stops a server or the workers. */
  add(stop: () => Promise<void>): void {
    this.#stops.push(stop);
  }

  /** Stops all servers and workers at the same time, then closes the connections that they use. */
  async run(): Promise<void> {
    try {
      await Promise.all(this.#stops.map((stop) => stop()));
    } finally {
      await Promise.all([this.#services.close(), stopTracing()]);
    }
  }

  /**
   * Stops everything when the process gets a signal. Running requests and jobs have SHUTDOWN_MS to end, and the
   * database 15 s more to close.
   */
  runAtSignal(log: FastifyBaseLogger): void {
    // `beforeExit` is left out: a failed start ends with exit code 1, and close-with-grace would change it to 0.
    const options = {
      delay: this.#services.config.SHUTDOWN_MS + 15_000,
      logger: false as const,
      skip: ['beforeExit' as const],
    };
    closeWithGrace(options, async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'stopping after an unexpected error');
      else log.info({ signal }, 'stopping');
      await this.run();
      log.info('stopped');
    });
  }
}
