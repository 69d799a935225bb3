import { DomainError } from './errors.ts';

/** Whom work is done for. All that is limited is shared between requesters, customer by customer. */
export interface Requester {
  /** The customer whose share the work counts in, or `serviceItself`. */
  customerId: string;
  /** Aborted with a DomainError when nobody waits for the result any more: the time is up, or the caller has hung up. */
  signal?: AbortSignal;
  /** Aborted when the time is up, also when the caller has hung up before: then a write that goes on is cancelled too. */
  timeUp?: AbortSignal;
  /**
   * Milliseconds that the work may still spend waiting for places, over all gates together: each gate takes its wait off.
   * Without it only the limit of each gate holds.
   */
  patienceMs?: number;
}

/** In place of a customer's id: the service's own work, such as logins, housekeeping and commands. */
export const serviceItself = 'service';

/** The reason of an abort: the caller has closed the connection. */
export class HungUp extends DomainError {
  constructor() {
    super('unavailable', 'The caller has hung up');
  }
}

/** The result of work, or the reason of the abort, whichever comes first. The work itself goes on. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
    const settle =
      <A>(how: (outcome: A) => void) =>
      (outcome: A) => {
        signal.removeEventListener('abort', abort);
        how(outcome);
      };
    work.then(settle(resolve), settle(reject));
  });
}
