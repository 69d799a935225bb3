import type { FastifyInstance } from 'fastify';
import { buildMonitor } from '../app.ts';
import type { OpenServices } from './database.ts';

/** Serves health and metrics of this process on `METRICS_PORT`. Returns undefined if that variable is not set. */
export async function listenMonitor(
  services: OpenServices,
): Promise<{ app: FastifyInstance; url: string } | undefined> {
  const { HOST, METRICS_PORT } = services.config;
  if (METRICS_PORT === undefined) return undefined;
  const app = buildMonitor(services);
  return { app, url: await app.listen({ host: HOST, port: METRICS_PORT }) };
}
