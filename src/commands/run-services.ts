import { setTimeout as sleep } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { stopTracing, startTracing } from '../process/tracing.ts';
import { type OpenServices, openServices, requireSchema } from './database.ts';
import { readConfig } from '../process/config.ts';
import { logger, isJsonLog } from '../process/logger.ts';
import { commandAction } from './command.ts';

type Shutdown = ReturnType<typeof shutdownOf>;

function shutdownOf(services: OpenServices) {
  const apps: FastifyInstance[] = [];
  const stops: (() => Promise<void>)[] = [];

  async function closeServers(graceMs: number): Promise<void> {
    if (graceMs > 0) {
      for (const app of apps) {
        await app.ready();
        app.announceStop();
      }
      await sleep(graceMs);
    }
    await Promise.all(apps.map((app) => app.close()));
  }

  async function run(graceMs = 0): Promise<void> {
    try {
      await Promise.all([closeServers(graceMs), ...stops.map((stop) => stop())]);
    } finally {
      await Promise.all([services.close(), stopTracing()]);
    }
  }

  /**
   * Shuts down when the process gets a signal. Running requests and jobs then have `SHUTDOWN_MS` to finish. After a
   * second signal, the process ends at once with exit code 1.
   * @param graceMs milliseconds after SIGTERM in which servers still accept requests, while `/readyz` tells load
   * balancers to stop
   */
  function runAtSignal(log: FastifyBaseLogger, graceMs = 0): void {
    // `beforeExit` is left out: a failed start ends with exit code 1, and close-with-grace would change it to 0.
    const options = {
      delay: graceMs + services.config.SHUTDOWN_MS + 15_000,
      logger: false as const,
      skip: ['beforeExit' as const],
      onSecondSignal: (signal?: string) => log.warn({ signal }, 'stopping at once after a second signal'),
    };
    closeWithGrace(options, async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'stopping after an unexpected error');
      else log.info({ signal }, 'stopping');
      await run(signal === 'SIGTERM' ? graceMs : 0);
      log.info('stopped');
    });
  }

  return {
    addServer: (app: FastifyInstance) => void apps.push(app),
    add: (stop: () => Promise<void>) => void stops.push(stop),
    run,
    runAtSignal,
  };
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
  const shutdown = shutdownOf(services);
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
