import type { FastifyContextConfig } from 'fastify';

const verbs = ['read', 'create', 'update', 'delete'] as const;

const scopesFor = <Records extends string>(records: Records) => verbs.map((verb) => `${records}:${verb}` as const);

export const scopes = [
  'customer:read',
  ...scopesFor('contacts'),
  ...scopesFor('companies'),
  ...scopesFor('list_contacts'),
  'list_contact_details:update',
  ...scopesFor('products'),
  ...scopesFor('opportunities'),
  ...scopesFor('activities'),
  'pipelines:read',
  'stages:read',
  'prospect:read',
  'payment_prospect:create',
  'verify_email:create',
  'webhooks:manage',
  'fields:manage',
] as const;

export type Scope = (typeof scopes)[number];

export const recordScopes = {
  contact: 'contacts',
  company: 'companies',
  list: 'list_contacts',
  product: 'products',
  opportunity: 'opportunities',
  activity: 'activities',
} as const;

/** Scopes that a key may need to undo a change. Which of them it needs depends on the change. */
export const undoScopes: readonly Scope[] = Object.values(recordScopes).flatMap((record) =>
  (['create', 'update', 'delete'] as const).map((verb) => `${record}:${verb}` as const),
);

/** Scopes of a key that is created without `permissions`. A key gets other scopes only if the request names them. */
export const usualScopes: readonly Scope[] = scopes.filter((scope) => !scope.endsWith(':manage'));

/**
 * Who may call a route:
 *
 * - `scope`, `anyScope`, `allScopes`: API keys with this scope, with one of these scopes, or with all of them.
 * - `session`: users with at least this role who send a session token in the header `Authorization`.
 * - `page`: users with at least this role who are logged in with a browser cookie.
 * - `public`: everybody.
 */
export type Access =
  | { scope: Scope }
  | { anyScope: readonly Scope[] }
  | { allScopes: readonly Scope[] }
  | { session: 'member' | 'admin' }
  | { page: 'member' | 'admin' }
  | { public: true };

export const isUsual = (own: readonly Scope[]): boolean =>
  own.length === usualScopes.length && usualScopes.every((scope) => own.includes(scope));

export function scopesOf(access: Access): readonly Scope[] {
  if ('scope' in access) return [access.scope];
  if ('allScopes' in access) return access.allScopes;
  return 'anyScope' in access ? access.anyScope : [];
}

export const mayCall = (own: readonly Scope[], access: Access): boolean => {
  const holds = (scope: Scope): boolean => own.includes(scope);
  return 'allScopes' in access ? access.allScopes.every(holds) : scopesOf(access).some(holds);
};

export const firstLacking = <S extends string>(own: readonly string[], needed: readonly S[]): S[] =>
  needed.filter((scope) => !own.includes(scope)).slice(0, 1);

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Who may call the route. Required: without it, the server does not start. */
    access?: Access;
  }
}

/**
 * Returns a function that makes the options of a route: how the API document describes it, the schemas of what it takes
 * and answers, and its configuration.
 * @param tag chapter of the API document
 * @param common configuration of all these routes, unless a route has another one
 */
export const routesOf =
  (tag: string, common: FastifyContextConfig = {}) =>
  <Schemas extends object>(
    operationId: string,
    summary: string,
    description: string,
    schemas: Schemas,
    config: FastifyContextConfig = {},
  ) => ({ config: { ...common, ...config }, schema: { operationId, summary, description, tags: [tag], ...schemas } });
