import type { EventSource } from '../schemas/events/types.ts';

/** What a transaction was opened for, as the events that it records tell it. */
export interface Origin {
  /** Null: the transaction records no events. One that records an event all the same is rolled back. */
  source: EventSource | null;
  /** False if events are turned off (`EVENTS=off`). */
  isRecording: boolean;
}

const origins = new WeakMap<object, Origin>();

/** Must be called when a transaction is opened. */
export function setOrigin(sql: object, origin: Origin): void {
  origins.set(sql, origin);
}

/**
 * Returns what made a transaction's changes, or undefined if events are turned off.
 * @throws Error if the transaction was opened by a requester that records no events
 */
export function eventSourceOf(sql: object): EventSource | undefined {
  const origin = origins.get(sql);
  if (!origin)
    throw new Error('The events of a transaction are recorded with its own object, not with that of a savepoint');
  if (!origin.isRecording) return undefined;
  if (origin.source === null) throw new Error('A transaction records an event, but its requester has no event source');
  return origin.source;
}
