import { setTimeout as sleep } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { stopTracing } from '../../tracing/tracing.ts';
import type { OpenServices } from '../database.ts';

export class Shutdown {
  readonly #services: OpenServices;
  readonly #apps: FastifyInstance[] = [];
  readonly #stops: (() => Promise<void>)[] = [];

  /** @param services are closed last */
  constructor(services: OpenServices) {
    this.#services = services;
  }

  addServer(app: FastifyInstance): void {
    this.#apps.push(app);
  }

  add(stop: () => Promise<void>): void {
    this.#stops.push(stop);
  }

  /**
   * Stops all servers and workers at the same time, then closes the database and the catalog.
   * @param graceMs time in which the servers still accept requests (ms)
   */
  async run(graceMs = 0): Promise<void> {
    try {
      await Promise.all([this.#closeServers(graceMs), ...this.#stops.map((stop) => stop())]);
    } finally {
      await Promise.all([this.#services.close(), stopTracing()]);
    }
  }

  async #closeServers(graceMs: number): Promise<void> {
    if (graceMs > 0) await this.#announceStop(graceMs);
    await Promise.all(this.#apps.map((app) => app.close()));
  }

  async #announceStop(graceMs: number): Promise<void> {
    for (const app of this.#apps) {
      await app.ready();
      app.announceStop();
    }
    await sleep(graceMs);
  }

  /**
   * Shuts down when the process gets a signal. After SIGTERM, servers first accept requests for another `graceMs`. Then
   * running requests and jobs have SHUTDOWN_MS to finish, and the database has 15 s more to close. After a second
   * signal, the process ends at once with exit code 1.
   * @param graceMs time after SIGTERM in which the servers still accept requests, while `/readyz` tells load balancers
   * to send no more (ms)
   */
  runAtSignal(log: FastifyBaseLogger, graceMs = 0): void {
    // `beforeExit` is left out: a failed start ends with exit code 1, and close-with-grace would change it to 0.
    const options = {
      delay: graceMs + this.#services.config.SHUTDOWN_MS + 15_000,
      logger: false as const,
      skip: ['beforeExit' as const],
      onSecondSignal: (signal?: string) => log.warn({ signal }, 'stopping at once after a second signal'),
    };
    closeWithGrace(options, async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'stopping after an unexpected error');
      else log.info({ signal }, 'stopping');
      await this.run(signal === 'SIGTERM' ? graceMs : 0);
      log.info('stopped');
    });
  }
}
