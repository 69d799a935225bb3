import type { Database, Transaction } from '../database/db.ts';
import { forbidden, notFound, Unauthorized, validationFailed } from '../errors.ts';
import type { Config } from '../process/config.ts';
import { lockUnrevokedKey } from '../queries/accounts/api-keys.ts';
import { findEnd, findPositionAt } from '../queries/records/feed.ts';
import {
  changeEndpoint,
  countWaiting,
  createEndpoint,
  listEndpoints,
  requireAddress,
  requireEndpoint,
  rotateEndpoint,
  startReplay,
} from '../queries/accounts/webhook-endpoints.ts';
import type { Actor } from '../schemas/accounts.ts';
import { eventReaders, type EventType } from '../schemas/events.ts';
import type {
  Endpoint,
  EndpointChange,
  EndpointRequest,
  EndpointSettings,
  IssuedEndpoint,
  TestResult,
} from '../schemas/webhooks.ts';
import { newSecret, requireSecretBox, faultOfUrl, targetRules } from './webhook-targets.ts';
import type { Sender } from './webhook-sender.ts';

export interface Management {
  db: Database;
  config: Config;
  customerId: string;
  by: Actor;
  /** The calling API key, and the types of events that it may read. Undefined if a user or the command line calls. */
  key?: { id: string; types: readonly EventType[] } | undefined;
}

function requireReadable({ key }: Pick<Management, 'key'>, types: readonly EventType[]): void {
  const secret = types.find((type) => key && !key.types.includes(type));
  if (secret !== undefined) throw forbidden(eventReaders[secret]);
}

const isVisible = ({ key }: Pick<Management, 'key'>, { types }: Pick<EndpointSettings, 'types'>): boolean =>
  types.every((type) => !key || (key.types as readonly string[]).includes(type));

/** @throws DomainError `not_found` if the endpoint does not exist, or the key may not see it */
export async function requireVisible(management: Management, id: string): Promise<void> {
  const endpoint = await management.db.lookup((sql) => requireEndpoint(sql, management.customerId, id));
  if (!isVisible(management, endpoint)) throw notFound('webhook endpoint');
}

/** A webhook endpoint with its secret. Show it only in the response to the request that issued the secret. */
export type Issued = IssuedEndpoint['data'];

export async function showEndpoints({
  db,
  customerId,
  key,
}: Pick<Management, 'db' | 'customerId' | 'key'>): Promise<Endpoint[]> {
  const all = await db.lookup((sql) => listEndpoints(sql, customerId));
  const states = all.filter((one) => isVisible({ key }, one));
  const waiting = await db.search((sql) => Promise.all(states.map((state) => countWaiting(sql, customerId, state))));
  return states.map(({ begins_at: _beginsAt, ends_at: _endsAt, pending: _pending, ...shown }, i) => ({
    ...shown,
    waiting: waiting[i]!,
  }));
}

type Issue = (sql: Transaction) => Promise<Issued>;

/**
 * Returns a function that creates an endpoint in a transaction. The endpoint gets no earlier events. The function
 * throws DomainError `conflict` if the customer has too many endpoints.
 * @throws DomainError `unavailable` if the installation has no key for webhook secrets; `validation_failed`
 */
export async function endpointCreation(
  { db, config, customerId, by, key }: Management,
  { url, types, bulk = false, description = '' }: EndpointRequest,
): Promise<Issue> {
  requireReadable({ key }, types);
  const box = requireSecretBox(config.WEBHOOK_SECRET_KEY);
  requireTarget(config, url);
  const secret = newSecret();
  const sealed = box.seal(customerId, secret);
  const { position: end } = await findEnd(db, customerId);
  const given = { url, types: [...new Set(types)], bulk, description, secret: sealed, end, apiKeyId: key?.id ?? null };
  return async (sql) => {
    await requireKey(sql, { customerId, key });
    return withSecret(await createEndpoint(sql, customerId, given, by), secret);
  };
}

/**
 * Returns a function that gives an endpoint a new secret. For 24 hours, deliveries are also signed with the previous
 * secret.
 */
export function secretRotation({ config, customerId, by, key }: Omit<Management, 'db'>, id: string): Issue {
  const box = requireSecretBox(config.WEBHOOK_SECRET_KEY);
  const secret = newSecret();
  const sealed = box.seal(customerId, secret);
  return async (sql) =>
    withSecret(await rotateEndpoint(sql, customerId, id, { secret: sealed, apiKeyId: key?.id ?? null }, by), secret);
}

const withSecret = ({ created_at, ...settings }: EndpointSettings, secret: string): Issued => ({
  ...settings,
  secret,
  created_at,
});

export async function updateEndpoint(
  { db, config, customerId, by, key }: Management,
  id: string,
  { types, ...given }: EndpointChange,
): Promise<EndpointSettings> {
  requireReadable({ key }, types ?? []);
  if (given.url !== undefined) requireTarget(config, given.url);
  const change = { ...given, ...(types && { types: [...new Set(types)] }) };
  const end = change.active === undefined ? 0 : (await findEnd(db, customerId)).position;
  return db.transaction(async (sql) => {
    await requireKey(sql, { customerId, key });
    return changeEndpoint(sql, customerId, id, { change, end, apiKeyId: key?.id ?? null }, by);
  });
}

/**
 * Checks that the calling API key was not revoked while its request ran. A revoked key must not create an endpoint.
 * @throws DomainError `unauthorized`
 */
async function requireKey(sql: Transaction, { customerId, key }: Pick<Management, 'customerId' | 'key'>) {
  if (key && !(await lockUnrevokedKey(sql, customerId, key.id))) throw new Unauthorized('key', 'revoked');
}

function requireTarget(config: Config, url: string): void {
  const message = faultOfUrl(url, targetRules(config));
  if (message !== undefined) throw validationFailed([{ path: '/url', message }]);
}

/**
 * Sends the events since `from` to an endpoint again.
 * @throws DomainError `conflict` if a replay of the endpoint is already running
 */
export async function replayEndpoint(
  { db, customerId }: Pick<Management, 'db' | 'customerId'>,
  id: string,
  from: string,
): Promise<void> {
  await db.lookup((sql) => requireEndpoint(sql, customerId, id));
  const { position: end } = await findEnd(db, customerId);
  const { position: begin } = await findPositionAt(db, customerId, from);
  await db.transaction((sql) => startReplay(sql, customerId, id, { from: begin, end }));
}

const testMs = 8_000;

/** Sends an event `webhook.test` to an endpoint, active or not. Stores nothing. */
export async function testEndpoint(
  { db, config, customerId }: Omit<Management, 'by'>,
  sender: Sender,
  id: string,
  signal?: AbortSignal,
): Promise<TestResult> {
  const { url, secrets, now, event_id } = await db.lookup((sql) => requireAddress(sql, customerId, id));
  const box = requireSecretBox(config.WEBHOOK_SECRET_KEY);
  const event = { id: event_id, type: 'webhook.test', occurred_at: now, data: { source: 'api' } };
  const message = {
    url,
    id: event_id,
    body: JSON.stringify(event),
    sentAt: new Date(now),
    secrets: secrets.map((sealed) => box.open(customerId, sealed)),
  };
  const { ok, status, error, ms } = await sender.send(message, testMs, signal);
  return { ok, status, error, ms };
}
