import { setTimeout as sleep } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { stopTracing, startTracing } from '../process/tracing.ts';
import { type OpenServices, openServices, requireSchema } from './database.ts';
import { readConfig } from '../process/config.ts';
import { logger, isJsonLog } from '../process/logger.ts';
import { commandAction } from './command.ts';

class Shutdown {
  readonly #services: OpenServices;
  readonly #apps: FastifyInstance[] = [];
  readonly #stops: (() => Promise<void>)[] = [];

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
   * @param graceMs time in which the servers still accept requests
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
   * Shuts down when the process gets a signal. Running requests and jobs then have `SHUTDOWN_MS` to finish. After a
   * second signal, the process ends at once with exit code 1.
   * @param graceMs milliseconds after SIGTERM in which servers still accept requests, while `/readyz` tells load
   * balancers to stop
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

/**
 * Starts an HTTP server for health checks and metrics on `METRICS_PORT`, until `shutdown` stops it. Returns its URL, or
 * null if the port is not set.
 */
export async function listenMonitor(services: OpenServices, shutdown: Shutdown): Promise<string | null> {
  const { HOST, METRICS_PORT } = services.config;
  if (METRICS_PORT === undefined) return null;
  // Loaded only here: a worker without this server needs no HTTP server in its memory.
  const { buildMonitor } = await import('./monitor-server.ts');
  const app = buildMonitor(services);
  // Added before it listens: an app that could not listen has connections too, and they would keep the process alive.
  shutdown.addServer(app);
  return app.listen({ host: HOST, port: METRICS_PORT });
}

export async function runServices<T>(
  options: { migrate?: true },
  start: (services: OpenServices, shutdown: Shutdown, log: FastifyBaseLogger) => Promise<T>,
): Promise<T> {
  const config = readConfig();
  const log = logger(config);
  await startTracing(config, log);
  const services = await openServices(config);
  const shutdown = new Shutdown(services);
  try {
    if (options.migrate) await (await import('../database/migrate.ts')).migrate(services.ownerUrl);
    await requireSchema(services);
    services.watchDatabase(log);
    return await start(services, shutdown, log);
  } catch (error) {
    await shutdown.run();
    throw error;
  }
}

export const serverAction =
  <Options, Result>(run: (options: Options) => Promise<Result>, print: (result: Result) => string) =>
  (options: Options & { json?: boolean }): Promise<void> =>
    // A collector of stdout and stderr then gets JSON lines only.
    commandAction(run, isJsonLog(readConfig()) ? (result) => JSON.stringify(result) : print)(options);
