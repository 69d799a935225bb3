import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';
import { checkSchema } from '../../database/migrations.ts';
import { readJobHealth } from '../../queries/jobs/backlog.ts';

type UpOrDegraded = 'up' | 'degraded';

/** What `/readyz` shows, and the metrics repeat. */
export interface Readiness {
  isReady: boolean;
  checks: {
    postgres: 'up' | 'down';
    schema: 'current' | 'behind' | 'ahead' | 'unknown';
    catalog: UpOrDegraded;
    rate_limits: UpOrDegraded;
    workers: UpOrDegraded;
    verification: UpOrDegraded;
    webhooks: UpOrDegraded;
    storage: UpOrDegraded;
  };
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Checks everything that the service needs. Concurrent callers share one check. */
    readiness(): Promise<Readiness>;
  }
}

/** How long the result of a readiness check is reused (ms). */
const checkMs = 250;

export default fp(
  async (app) => {
    let shared: Promise<Readiness> | undefined;
    app.decorate('readiness', () => {
      shared ??= check(app).finally(() => {
        setTimeout(() => (shared = undefined), checkMs).unref();
      });
      return shared;
    });
  },
  { name: 'readiness', dependencies: ['services', 'rate-limits'] },
);

async function check({ db, catalog, rateLimits, config }: FastifyInstance): Promise<Readiness> {
  const [schema, jobs, isCatalogUp, areLimitsUp] = await Promise.all([
    db.health(checkSchema).catch(() => undefined),
    db.health(readJobHealth).catch(() => ({ has_workers: true, has_names: true })),
    catalog.isUp(),
    rateLimits.isUp(),
  ]);
  return {
    isReady: schema?.isSupported === true,
    checks: {
      postgres: schema ? 'up' : 'down',
      schema: schema?.state ?? 'unknown',
      catalog: upOrDegraded(isCatalogUp),
      rate_limits: upOrDegraded(areLimitsUp),
      workers: upOrDegraded(jobs.has_workers),
      verification: upOrDegraded(jobs.has_names),
      webhooks: upOrDegraded(config.WEBHOOK_SECRET_KEY !== undefined),
      storage: upOrDegraded(!db.isDiskFull),
    },
  };
}

const upOrDegraded = (isUp: boolean): UpOrDegraded => (isUp ? 'up' : 'degraded');
