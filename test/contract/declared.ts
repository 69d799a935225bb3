import type { FastifyContextConfig, FastifyInstance, FastifySchema } from 'fastify';
import { buildApp } from '../../src/app.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { buildMonitor } from '../../src/commands/monitor-server.ts';
import { parseConfig } from '../../src/process/config.ts';
import type { SharedDatabase } from '../../src/database/db.ts';
import type { Policy } from '../../src/access/rate-limits.ts';
import { policiesOf } from '../../src/plugins/rate-limits.ts';
import type { Access } from '../../src/schemas/scopes.ts';

/** A JSON schema or a part of it. */
export type Json = Record<string, unknown>;

/** A documented route as declared. HEAD has an entry beside its GET. */
export interface DeclaredRoute {
  /** Method and path, e.g. `POST /api/ext/contacts`. */
  name: string;
  method: string;
  url: string;
  access: Access;
  /** Whether a successful response names the change that the call made. */
  isChange: boolean;
  /** The rate limit policies that count the route's requests. */
  policies: Policy[];
  /** Maximum size of a body (bytes). */
  bodyLimit: number;
  params: Json | undefined;
  body: Json | undefined;
  /** Response schemas by status (as strings). */
  responses: Record<string, Json>;
}

const unreachable = async (): Promise<never> => {
  throw new Error('this app has no database');
};
const noDatabase: SharedDatabase = {
  lookup: unreachable,
  search: unreachable,
  transaction: unreachable,
  credentials: unreachable,
  for: () => noDatabase,
  health: unreachable,
  limiters: [],
  isDiskFull: false,
  logOutages: () => undefined,
  close: async () => {},
};

/** Builds the real app without a database, for tests of what is decided before any record is read. Not ready yet. */
export const appWithoutDatabase = (environment: Record<string, string> = {}): FastifyInstance =>
  buildApp(servicesWithoutDatabase(environment));

/** Builds the server of `METRICS_PORT` without a database. Not ready yet. */
export const monitorWithoutDatabase = (environment: Record<string, string> = {}): FastifyInstance =>
  buildMonitor(servicesWithoutDatabase(environment));

function servicesWithoutDatabase(environment: Record<string, string>) {
  const config = parseConfig({ LOG_LEVEL: 'trace', OVERLOAD_MS: '0', ...environment });
  return { config, db: noDatabase, catalog: openCatalog(config, noDatabase) };
}

/** Returns every route of the app, read from the app itself, so that new routes are included. */
export async function declaredRoutes(): Promise<{ documented: DeclaredRoute[]; hidden: DeclaredRoute[] }> {
  const app = appWithoutDatabase();
  const seen: {
    method: string;
    url: string;
    bodyLimit: number;
    schema: FastifySchema | undefined;
    config: FastifyContextConfig;
  }[] = [];
  app.addHook('onRoute', (route) => {
    for (const method of [route.method].flat())
      seen.push({
        method,
        url: route.url,
        // Hooks that run after this one complete the route.
        get bodyLimit() {
          return route.bodyLimit ?? app.initialConfig.bodyLimit!;
        },
        get schema() {
          return route.schema;
        },
        get config() {
          return route.config ?? {};
        },
      });
  });
  await app.ready();
  const routes = seen.map(({ method, url, bodyLimit, schema, config }) => ({
    hidden: schema?.hide === true,
    name: `${method} ${url}`,
    method,
    url,
    bodyLimit,
    access: config.access!,
    isChange: config.isChange === true,
    policies: policiesOf(config),
    params: schema?.params as Json | undefined,
    body: schema?.body as Json | undefined,
    responses: (schema?.response ?? {}) as Record<string, Json>,
  }));
  await app.close();
  return { documented: routes.filter(({ hidden }) => !hidden), hidden: routes.filter(({ hidden }) => hidden) };
}

/** Returns the scopes of which a key needs one, or all; empty for a route that accepts no key. */
export function scopesOf(access: Access): readonly string[] {
  if ('scope' in access) return [access.scope];
  if ('allScopes' in access) return access.allScopes;
  return 'anyScope' in access ? access.anyScope : [];
}

/** Formats a route's access: `contacts:read`, `a | b`, `a & b`, `session admin` or `public`. */
export function describeAccess(access: Access): string {
  if ('public' in access) return 'public';
  return 'session' in access
    ? `session ${access.session}`
    : scopesOf(access).join('allScopes' in access ? ' & ' : ' | ');
}

/** Returns the success statuses and the error statuses of a route. */
export function statusesOf(route: DeclaredRoute): { success: string[]; errors: string[] } {
  const statuses = Object.keys(route.responses);
  return { success: statuses.filter((status) => status < '400'), errors: statuses.filter((status) => status >= '400') };
}
