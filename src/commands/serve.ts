import type { Command } from 'commander';
import { buildApp } from '../app.ts';
import type { Demo } from './load-demo.ts';
import type { OpenServices } from './database.ts';
import { describeDemo } from './demo.ts';
import { keepYoungHeapSmall } from './command.ts';
import { listenMonitor, serverAction, runServices } from './run-services.ts';

export function define(command: Command): void {
  command
    .option('--migrate', 'migrate the database to the current schema first')
    .option('--demo', 'load the demo customer first, and print a login and a key')
    .option('--with-worker', 'process jobs in this process too, like `work`')
    .action(serverAction(serve, describe));
}

const serve = (options: { migrate?: true; demo?: true; withWorker?: true }) =>
  runServices(options, async (services, shutdown) => {
    const demo = options.demo ? await demoIn(services) : null;
    const app = buildApp(services);
    shutdown.addServer(app);
    if (options.withWorker) {
      const { startWorkers } = await import('../jobs/workers.ts');
      const workers = await startWorkers({ ...services, log: app.log });
      shutdown.add(() => workers.stop());
    }
    const monitor = await listenMonitor(services, shutdown);
    const { HOST: host, PORT: port, SHUTDOWN_GRACE_MS: graceMs } = services.config;
    shutdown.runAtSignal(app.log, graceMs);
    const url = await app.listen({ host, port });
    keepYoungHeapSmall(false); // requests need room
    return { url, docs: `${url}/docs`, monitor, demo };
  });

async function demoIn(services: OpenServices): Promise<Demo | null> {
  const { loadDemo, OtherCustomerError } = await import('./load-demo.ts'); // with all it generates: seldom needed
  return loadDemo(services).catch((error: unknown) => {
    if (!(error instanceof OtherCustomerError)) throw error;
    process.stderr.write(`warning: ${error.message}\n`);
    return null;
  });
}

const describe = ({ url, docs, demo }: Awaited<ReturnType<typeof serve>>): string =>
  [...(demo ? [describeDemo(demo, url), ''] : []), `Serving on ${url} (interactive documentation: ${docs})`].join('\n');
