import { DomainError } from './errors.ts';

/**
 * The customer that an operation works for, and how long it may take. Limited resources, such as database connections,
 * are shared fairly between customers.
 */
export interface Requester {
  /** The customer that the resources are used for, or `serviceItself`. */
  customerId: string;
  /**
   * Aborts with a DomainError when the result is no longer needed: the time is up, or the caller has closed the
   * connection.
   */
  signal?: AbortSignal;
  /**
   * Aborts when the time is up, and only then. It stops a write that continued after the caller closed the connection.
   */
  timeUp?: AbortSignal;
  /**
   * How long the operation may still wait for limited resources, in total (ms). Each wait is subtracted. If undefined,
   * only the limits of each resource apply.
   */
  patienceMs?: number;
}

/** Used instead of a customer's id for the service's own work, such as logins, maintenance and commands. */
export const serviceItself = 'service';

/** The error of an operation that ends because the caller has closed the connection. */
export class CallerHungUp extends DomainError {
  constructor() {
    super('unavailable', 'The caller has hung up');
  }
}

/**
 * Returns the result of `work`. If the signal aborts first, rejects with the signal's reason; the work itself
 * continues.
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
