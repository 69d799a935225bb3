import type { OpenServices } from '../database.ts';
import type { Shutdown } from './shutdown.ts';

/**
 * Starts an HTTP server for health checks and metrics on `METRICS_PORT`; `shutdown` stops it. Returns its URL, or null
 * if the port is not set.
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
