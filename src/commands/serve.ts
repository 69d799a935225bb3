import closeWithGrace from 'close-with-grace';
import type { Command } from 'commander';
import type { FastifyInstance } from 'fastify';
import { buildApp } from '../app.ts';
import { readConfig } from '../config.ts';
import { migrate } from '../database/migrate.ts';
import { loadDemo, OtherCustomerError, type Demo } from '../demo/load-demo.ts';
import { startWorkers, type Workers } from '../jobs/workers.ts';
import { commandAction } from './command.ts';
import { openServices, requireSchema, type OpenServices } from './database.ts';
import { describeDemo } from './demo.ts';
import { listenMonitor } from './monitor.ts';

interface Options {
  migrate?: true;
  demo?: true;
  withWorker?: true;
}

interface Serving {
  url: string;
  docs: string;
  /** The URL of health and metrics if they have a port of their own, otherwise null. */
  monitor: string | null;
  demo: Demo | null;
}

/** Defines the command `serve`. */
export function define(command: Command): void {
  command
    .option('--migrate', 'migrate the database to the current schema first')
    .option('--demo', 'load the demo customer first, and print a login and a key')
    .option('--with-worker', 'process jobs in this process too, like `work`')
    .action(commandAction(serve, describe));
}

/**
 * Serves HTTP until SIGTERM or SIGINT. Then finishes the running requests, closes all connections and exits with code
 * 0.
 */
async function serve(options: Options): Promise<Serving> {
  const config = readConfig();
  const services = await openServices(config);
  let app: FastifyInstance | undefined;
  let workers: Workers | undefined;
  try {
    if (options.migrate) await migrate(services.ownerUrl);
    await requireSchema(services);
    const demo = options.demo ? await loadDemo(services).catch(warnOfOthers) : null;
    app = buildApp(services);
    if (options.withWorker) workers = await startWorkersFor(app, services);
    const monitor = await listenMonitor(services);
    closeAtSignal([app, ...(monitor ? [monitor.app] : [])], services, workers);
    const url = await app.listen({ host: config.HOST, port: config.PORT });
    return { url, docs: `${url}/docs`, monitor: monitor?.url ?? null, demo };
  } catch (error) {
    await Promise.all([app?.close(), workers?.stop()]);
    await services.close();
    throw error;
  }
}

/**
 * Prints a warning that there is no demo, because the database contains other customers. The service then starts
 * without the demo. Throws every other error.
 */
function warnOfOthers(error: unknown): null {
  if (!(error instanceof OtherCustomerError)) throw error;
  process.stderr.write(`warning: ${error.message}\n`);
  return null;
}

const startWorkersFor = (app: FastifyInstance, { config, db, catalog, url }: OpenServices): Promise<Workers> =>
  startWorkers({ config, db, catalog, url, log: app.log });

/**
 * Closes the server when the process gets a signal. Running requests have SHUTDOWN_MS to end, and the database 15 s
 * more to close.
 */
function closeAtSignal(
  apps: [FastifyInstance, ...FastifyInstance[]],
  services: OpenServices,
  workers: Workers | undefined,
): void {
  // `beforeExit` is left out: a failed start ends with exit code 1, and close-with-grace would change it to 0.
  const options = {
    delay: services.config.SHUTDOWN_MS + 15_000,
    logger: false as const,
    skip: ['beforeExit' as const],
  };
  closeWithGrace(options, async ({ signal, err }) => {
    const [{ log }] = apps;
    if (err) log.fatal({ err }, 'stopping after an unexpected error');
    else log.info({ signal }, 'stopping');
    await Promise.all([...apps.map((app) => app.close()), workers?.stop()]);
    await services.close();
    log.info('stopped');
  });
}

const describe = ({ url, docs, demo }: Serving): string =>
  [...(demo ? [describeDemo(demo, url), ''] : []), `Serving on ${url} (interactive documentation: ${docs})`].join('\n');
