import type { Command } from 'commander';
import { startWorkers } from '../jobs/workers.ts';
import { listenMonitor, serverAction, runServices } from './run-services.ts';

export function define(command: Command): void {
  command
    .option('--migrate', 'migrate the database to the current schema first')
    .action(serverAction(work, () => 'Working'));
}

const work = (options: { migrate?: true }) =>
  runServices(options, async (services, shutdown, log) => {
    const workers = await startWorkers({ ...services, log });
    shutdown.add(() => workers.stop());
    const monitor = await listenMonitor(services, shutdown);
    shutdown.runAtSignal(log);
    return { working: true, monitor };
  });
