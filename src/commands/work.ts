import type { Command } from 'commander';
import { startWorkers } from '../jobs/workers.ts';
import { listenMonitor, serverAction, runServices } from './run-services.ts';

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
const work = (options: { migrate?: true }): Promise<Working> =>
  runServices(options, async (services, shutdown, log) => {
    const workers = await startWorkers({ ...services, log });
    shutdown.add(() => workers.stop());
    const monitor = await listenMonitor(services, shutdown);
    shutdown.runAtSignal(log);
    return { working: true, monitor };
  });
