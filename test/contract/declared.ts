import type { FastifyContextConfig, FastifyInstance, FastifySchema } from 'fastify';
import { buildApp } from '../../src/app.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { parseConfig } from '../../src/config.ts';
import type { SharedDatabase } from '../../src/db.ts';
import { policiesOf } from '../../src/plugins/rate-limits.ts';
import type { Policy } from '../../src/rate-limits.ts';
import type { Access } from '../../src/schemas/scopes.ts';

/** A JSON schema, or a part of one. */
export type Json = Record<string, unknown>;

/** A route of the service as it was declared, documented ones only. HEAD stands beside its GET. */
export interface DeclaredRoute {
  /** `POST /api/ext/contacts` */
  name: string;
  method: string;
  url: string;
  access: Access;
  /** The rate limits that count its requests. */
  policies: Policy[];
  params: Json | undefined;
  body: Json | undefined;
  /** By status, as strings. */
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
  gates: [],
  isDiskFull: false,
  close: async () => {},
};

/** The real app with nothing behind it, for what is decided before any record is looked at. Not ready yet. */
export const appWithoutDatabase = (environment: Record<string, string> = {}): FastifyInstance => {
  const config = parseConfig({ LOG_LEVEL: 'silent', OVERLOAD_MS: '0', ...environment });
  return buildApp({ config, db: noDatabase, catalog: openCatalog(config, noDatabase) });
};

/** Every route of the app, from the app itself: what is added tomorrow is in it. */
export async function declaredRoutes(): Promise<{ documented: DeclaredRoute[]; hidden: DeclaredRoute[] }> {
  const app = appWithoutDatabase();
  const seen: { method: string; url: string; schema: FastifySchema | undefined; config: FastifyContextConfig }[] = [];
  app.addHook('onRoute', (route) => {
    for (const method of [route.method].flat())
      seen.push({
        method,
        url: route.url,
        get schema() {
          return route.schema; // completed by hooks that run after this one
        },
        get config() {
          return route.config ?? {};
        },
      });
  });
  await app.ready();
  const routes = seen.map(({ method, url, schema, config }) => ({
    hidden: schema?.hide === true,
    name: `${method} ${url}`,
    method,
    url,
    access: config.access!,
    policies: policiesOf(config),
    params: schema?.params as Json | undefined,
    body: schema?.body as Json | undefined,
    responses: (schema?.response ?? {}) as Record<string, Json>,
  }));
  await app.close();
  return { documented: routes.filter(({ hidden }) => !hidden), hidden: routes.filter(({ hidden }) => hidden) };
}

/** The scopes of which a key needs one; none for a route that takes no key. */
export function scopesOf(access: Access): readonly string[] {
  if ('scope' in access) return [access.scope];
  return 'anyScope' in access ? access.anyScope : [];
}

/** `contacts:read`, `a | b`, `session admin`, `public` */
export function describeAccess(access: Access): string {
  if ('public' in access) return 'public';
  return 'session' in access ? `session ${access.session}` : scopesOf(access).join(' | ');
}

/** Statuses of success, and of errors. */
export function statusesOf(route: DeclaredRoute): { success: string[]; errors: string[] } {
  const statuses = Object.keys(route.responses);
  return { success: statuses.filter((status) => status < '400'), errors: statuses.filter((status) => status >= '400') };
}
