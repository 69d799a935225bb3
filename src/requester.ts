import { DomainError } from './errors.ts';

/**
 * The customer for whom an operation runs, and how long the operation may take. The customer is needed because limited
 * resources, such as database connections, are shared fairly between customers.
 */
export interface Requester {
  /** The id of the customer for whom the operation runs, or `serviceItself`. */
  customerId: string;
  /**
   * Aborts with a DomainError when the result is no longer needed, because the time is up or the caller has closed the
   * connection.
   */
  signal?: AbortSignal;
  /**
   * Aborts only when the time is up, not when the caller closes the connection. Used for writes, which continue after
   * the connection is closed.
   */
  timeUp?: AbortSignal;
  /**
   * The total time that the operation may still wait for limited resources (ms). Each wait reduces it. If undefined,
   * only the limits of each resource apply.
   */
  patienceMs?: number;
  /**
   * How long each wait for a limited resource may take (ms), instead of that resource's own limit. It is set for long
   * work with many operations, which can go on after a wait.
   */
  waitMs?: number;
}

/** The id that replaces a customer's id for the service's own work, such as logins, maintenance and commands. */
export const serviceItself = 'service';

/** Thrown when an operation ends early because the caller has closed the connection. */
export class CallerHungUp extends DomainError {
  constructor() {
    super('unavailable', 'The caller has hung up');
  }
}

/**
 * Returns the result of `work`. If the signal aborts first, rejects with the signal's reason; `work` itself continues.
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
