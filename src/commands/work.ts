import type { Command } from 'commander';
import { readConfig } from '../process/config.ts';
import { migrate } from '../database/migrate.ts';
import { startWorkers } from '../jobs/workers.ts';
import { logger } from '../process/logger.ts';
import { startTracing } from '../tracing/tracing.ts';
import { openServices, requireSchema } from './database.ts';
import { listenMonitor } from './shell/monitor.ts';
import { serverAction } from './shell/server-action.ts';
import { Shutdown } from './shell/shutdown.ts';

interface Working {
  working: true;
  /** The URL for health checks and metrics, or null if `METRICS_PORT` is not set. */
  monitor: string | null;
}

export function define(command: Command): void {
  command
    .option('--migrate', 'migrate the database to the current schema first')
    .action(serverAction(work, () => 'Working'));
}

/** Starts the workers. On SIGTERM or SIGINT, finishes the work in progress and exits with code 0. */
async function work(options: { migrate?: true }): Promise<Working> {
  const config = readConfig();
  const log = logger(config);
  await startTracing(config, log);
  const services = await openServices(config);
  const shutdown = new Shutdown(services);
  try {
    if (options.migrate) await migrate(services.ownerUrl);
    await requireSchema(services);
    services.watchDatabase(log);
    const workers = await startWorkers({ ...services, log });
    shutdown.add(() => workers.stop());
    const monitor = await listenMonitor(services, shutdown);
    shutdown.runAtSignal(log);
    return { working: true, monitor };
  } catch (error) {
    await shutdown.run();
    throw error;
  }
}
