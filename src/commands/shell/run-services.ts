import type { FastifyBaseLogger } from 'fastify';
import { readConfig } from '../../process/config.ts';
import { logger } from '../../process/logger.ts';
import { startTracing } from '../../tracing/tracing.ts';
import { openServices, requireSchema, type OpenServices } from '../database.ts';
import { Shutdown } from './shutdown.ts';

/**
 * Opens the services of a process that runs until it gets a signal, and starts it. Closes all if the start fails.
 * @param start calls `runAtSignal` when the process can stop
 */
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
    if (options.migrate) await (await import('../../database/migrate.ts')).migrate(services.ownerUrl);
    await requireSchema(services);
    services.watchDatabase(log);
    return await start(services, shutdown, log);
  } catch (error) {
    await shutdown.run();
    throw error;
  }
}
