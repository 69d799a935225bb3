import type { EventActor, EventSource } from '../schemas/events/types.ts';

/** What a transaction was opened for, as the journal tells it. */
export interface Origin {
  /** Null: the transaction records nothing. One that records something all the same is rolled back. */
  source: EventSource | null;
  actor: EventActor;
  /** The same for all that one call, job or import changes. */
  changeId: string;
  /** The id of the request, as its log line has it. Undefined: no request. */
  requestId?: string | undefined;
}

const origins = new WeakMap<object, Origin>();

/** Must be called when a transaction is opened. Called again, it replaces members. */
export function setOrigin(sql: object, origin: Partial<Origin>): void {
  origins.set(sql, { ...origins.get(sql), ...origin } as Origin);
}

/** @throws Error if this is not the object of a transaction, but for example that of a savepoint */
export function originOf(sql: object): Origin {
  const origin = origins.get(sql);
  if (!origin)
    throw new Error('The events of a transaction are recorded with its own object, not with that of a savepoint');
  return origin;
}
