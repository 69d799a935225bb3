import { DomainError } from './errors.ts';

/** Whom work is done for, and for how long. Limited resources are shared fairly between customers. */
export interface Requester {
  /** The customer whose share the work uses, or `serviceItself`. */
  customerId: string;
  /** Aborts with a DomainError when nobody waits for the result any more: the time is up, or the caller has hung up. */
  signal?: AbortSignal;
  /**
   * Aborts when the time is up, even if the caller hung up before. A write that continued after the hang-up is then
   * cancelled.
   */
  timeUp?: AbortSignal;
  /**
   * Remaining time that the work may wait for slots, over all gates together (ms). Each gate subtracts its wait. If
   * undefined, only the gates' own limits apply.
   */
  patienceMs?: number;
}

/** Used instead of a customer's id for the service's own work, such as logins, maintenance and commands. */
export const serviceItself = 'service';

/** The abort reason when the caller has closed the connection. */
export class CallerHungUp extends DomainError {
  constructor() {
    super('unavailable', 'The caller has hung up');
  }
}

/**
 * Returns the result of `work`, or rejects with the abort reason if the signal aborts first. The work itself continues.
 */
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
