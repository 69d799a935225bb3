import closeWithGrace from 'close-with-grace';
import type { Command } from 'commander';
import { logger } from '../app.ts';
import { readConfig } from '../config.ts';
import { migrate } from '../database/migrate.ts';
import { startWorkers } from '../jobs/workers.ts';
import { commandAction } from './command.ts';
import { openServices, requireSchema } from './database.ts';
import { listenMonitor } from './monitor.ts';

interface Working {
  working: true;
  /** The URL of health and metrics, or null if they are not served. */
  monitor: string | null;
}

/** Defines the command `work`. */
export function define(command: Command): void {
  command
    .option('--migrate', 'migrate the database to the current schema first')
    .action(commandAction(work, () => 'Working'));
}

/**
 * Processes jobs until SIGTERM or SIGINT. Then finishes the work in progress, closes all connections and exits with
 * code 0.
 */
async function work(options: { migrate?: true }): Promise<Working> {
  const config = readConfig();
  const services = await openServices(config);
  try {
    if (options.migrate) await migrate(services.ownerUrl);
    await requireSchema(services);
    const log = logger(config);
    const { db, catalog, url } = services;
    const workers = await startWorkers({ config, db, catalog, log, url });
    const monitor = await listenMonitor(services).catch(async (error: unknown) => {
      await workers.stop();
      throw error;
    });
    const grace = { delay: config.SHUTDOWN_MS + 15_000, logger: false as const, skip: ['beforeExit' as const] };
    closeWithGrace(grace, async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'stopping after an unexpected error');
      else log.info({ signal }, 'stopping');
      await Promise.all([workers.stop(), monitor?.app.close()]);
      await services.close();
      log.info('stopped');
    });
    return { working: true, monitor: monitor?.url ?? null };
  } catch (error) {
    await services.close();
    throw error;
  }
}
