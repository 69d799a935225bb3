import { undoScopes, type Scope } from '../base/scopes.ts';

/** The records whose changes make events. Each has the events `….created`, `….updated` and `….deleted`. */
export const eventNouns = ['contact', 'company', 'list', 'product', 'opportunity', 'activity'] as const;
export type EventNoun = (typeof eventNouns)[number];

export const recordVerbs = ['created', 'updated', 'deleted'] as const;
export type RecordVerb = (typeof recordVerbs)[number];

/** The types of events that are about a record. */
export const recordTypes = eventNouns.flatMap((noun) => recordVerbs.map((verb) => `${noun}.${verb}` as const));

export const eventTypes = [
  ...recordTypes,
  'job.ended',
  'import.ended',
  'credits.low',
  'prospect.removed',
] as const satisfies readonly string[];
export type EventType = (typeof eventTypes)[number];

export const eventSources = ['api', 'page', 'import', 'job', 'command'] as const;
export type EventSource = (typeof eventSources)[number];

export const actorTypes = ['key', 'user', 'operator', 'service'] as const;

/** Who made a change: an API key, a user, the command line, or the service by itself. */
export interface EventActor {
  type: (typeof actorTypes)[number];
  id?: string;
  name?: string;
}

/** A key with one of these scopes sees the events of a type. Those of jobs and imports only as far as these themselves. */
export const eventReaders = {
  ...readersOf('contact', 'contacts:read'),
  ...readersOf('company', 'companies:read'),
  ...readersOf('list', 'list_contacts:read'),
  ...readersOf('product', 'products:read'),
  ...readersOf('opportunity', 'opportunities:read'),
  ...readersOf('activity', 'activities:read'),
  'job.ended': ['payment_prospect:create', 'verify_email:create', 'list_contacts:read', ...undoScopes],
  'import.ended': ['contacts:create', 'contacts:update', 'companies:create', 'companies:update'],
  'credits.low': ['customer:read'],
  'prospect.removed': ['prospect:read'],
} as const satisfies Record<EventType, readonly Scope[]>;

function readersOf<Noun extends EventNoun, S extends Scope>(
  noun: Noun,
  scope: S,
): Record<`${Noun}.${'created' | 'updated' | 'deleted'}`, readonly [S]> {
  const verbs = ['created', 'updated', 'deleted'] as const;
  return Object.fromEntries(verbs.map((verb) => [`${noun}.${verb}`, [scope]])) as never;
}

/** Types of which a key with these scopes sees every event. */
export const whollyReadableEvents = (scopes: readonly Scope[]): EventType[] =>
  eventTypes.filter((type) => (eventReaders[type] as readonly Scope[]).every((scope) => scopes.includes(scope)));

export const readableEvents = (scopes: readonly Scope[]): EventType[] =>
  eventTypes.filter((type) => (eventReaders[type] as readonly Scope[]).some((scope) => scopes.includes(scope)));
