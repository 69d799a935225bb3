import type { Database, Transaction } from '../database/db.ts';
import { validationFailed } from '../errors.ts';
import type { Config } from '../process/config.ts';
import { findEnd, findPlaceAt } from '../queries/events/feed.ts';
import { countWaiting } from '../queries/webhooks/backlog.ts';
import {
  changeEndpoint,
  createEndpoint,
  listEndpoints,
  requireAddress,
  requireEndpoint,
  rotateEndpoint,
  startReplay,
} from '../queries/webhooks/endpoints.ts';
import type { Actor } from '../schemas/audit.ts';
import type {
  Endpoint,
  EndpointChange,
  EndpointRequest,
  EndpointSettings,
  IssuedEndpoint,
  TestResult,
} from '../schemas/events/webhooks.ts';
import { newSecret, requireSecretBox } from '../webhooks/secrets.ts';
import type { Sender } from '../webhooks/sender.ts';
import { faultOfUrl, targetRules } from '../webhooks/targets.ts';

export interface Management {
  db: Database;
  config: Config;
  customerId: string;
  by: Actor;
}

/** Contains the secret. Show it only in the response to the request that issued it. */
export type Issued = IssuedEndpoint['data'];

/** Newest first. */
export async function showEndpoints({ db, customerId }: Pick<Management, 'db' | 'customerId'>): Promise<Endpoint[]> {
  const states = await db.lookup((sql) => listEndpoints(sql, customerId));
  const inFeed = await db.search((sql) => Promise.all(states.map((state) => countWaiting(sql, customerId, state))));
  return states.map(({ position: _position, set_aside, ...shown }, i) => ({
    ...shown,
    waiting: inFeed[i]! + set_aside,
  }));
}

/** What is done in a transaction, and returns the secret that it has issued. */
type Issue = (sql: Transaction) => Promise<Issued>;

/**
 * Returns what creates an endpoint. Nothing from before is sent to it.
 * @throws DomainError `unavailable` if the installation has no key for secrets; `validation_failed`. The transaction:
 * `conflict` if the customer has too many endpoints
 */
export async function endpointCreation(
  { db, config, customerId, by }: Management,
  { url, types, bulk = false, description = '' }: EndpointRequest,
): Promise<Issue> {
  const box = requireSecretBox(config.WEBHOOK_SECRET_KEY);
  requireTarget(config, url);
  const secret = newSecret();
  const sealed = box.seal(customerId, secret);
  const end = await findEnd(db, customerId);
  const given = { url, types: [...new Set(types)], bulk, description, secret: sealed, end };
  return async (sql) => withSecret(await createEndpoint(sql, customerId, given, by), secret);
}

/** Returns what gives an endpoint a new secret. For 24 hours deliveries are signed with the previous one too. */
export function secretRotation({ config, customerId, by }: Omit<Management, 'db'>, id: string): Issue {
  const box = requireSecretBox(config.WEBHOOK_SECRET_KEY);
  const secret = newSecret();
  const sealed = box.seal(customerId, secret);
  return async (sql) => withSecret(await rotateEndpoint(sql, customerId, id, sealed, by), secret);
}

const withSecret = ({ created_at, ...settings }: EndpointSettings, secret: string): Issued => ({
  ...settings,
  secret,
  created_at,
});

export async function updateEndpoint(
  { db, config, customerId, by }: Management,
  id: string,
  { types, ...given }: EndpointChange,
): Promise<EndpointSettings> {
  if (given.url !== undefined) requireTarget(config, given.url);
  const change = { ...given, ...(types && { types: [...new Set(types)] }) };
  const end = change.active === undefined ? 0 : (await findEnd(db, customerId)).position;
  return db.transaction((sql) => changeEndpoint(sql, customerId, id, { change, end }, by));
}

/** @throws DomainError `validation_failed` if no endpoint may be at this URL */
function requireTarget(config: Config, url: string): void {
  const message = faultOfUrl(url, targetRules(config));
  if (message !== undefined) throw validationFailed([{ path: '/url', message }]);
}

/** @throws DomainError `conflict` if a replay of the endpoint is under way */
export async function replayEndpoint(
  { db, customerId }: Pick<Management, 'db' | 'customerId'>,
  id: string,
  from: string,
): Promise<void> {
  await db.lookup((sql) => requireEndpoint(sql, customerId, id));
  const end = await findEnd(db, customerId);
  const place = { id: null, ...(await findPlaceAt(db, customerId, from)) };
  await db.transaction((sql) => startReplay(sql, customerId, id, { from: place, end }));
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
