import { DomainError } from '../errors.ts';
import type { EventActor } from '../schemas/events/types.ts';

/**
 * The customer for whom an operation runs, and how long the operation may take. Limited resources, such as database
 * connections, are shared fairly between customers.
 */
export interface Requester {
  /** The id of the customer for whom the operation runs, `serviceItself` or `allCustomers`. */
  customerId: string;
  /**
   * Aborts when the result of the operation is no longer needed, because the time is up or the caller has closed the
   * connection. The abort reason is a DomainError.
   */
  signal?: AbortSignal;
  /** Aborts only when the time is up. Used for writes, which continue if the caller closes the connection. */
  timeUp?: AbortSignal;
  /**
   * The total time that the operation may still wait for limited resources (ms). Each wait reduces this time. If
   * undefined, only the limits of the resources apply.
   */
  patienceMs?: number;
  /**
   * Maximum time of each single wait for a limited resource (ms). Replaces the limit of the resource. Set for long
   * requests, such as exports.
   */
  waitMs?: number;
  /** Who acts, as the journal tells it. Default: the command line for a command, else the service itself. */
  actor?: EventActor;
  /** What the journal calls all changes of the operation. Default: another for each transaction. */
  changeId?: string;
  /** The id of the request. Jobs and imports that it creates store it. */
  requestId?: string;
}

/** The customer id for work of the service itself, such as logins, maintenance and commands. */
export const serviceItself = 'service';

/**
 * Used instead of a customer id for work that reads rows of many customers, such as the search for waiting jobs.
 */
export const allCustomers = 'all customers';

/** Thrown when an operation ends early because the caller has closed the connection. */
export class CallerHungUp extends DomainError {
  constructor() {
    super('unavailable', 'The caller has hung up');
  }
}

/**
 * Returns the result of `work`. If the signal aborts first, rejects with the abort reason, but does not stop `work`.
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
