import { unavailable } from '../errors.ts';

/** Maximum number of database look-ups that run at the same time for one IP address above its rate limit. */
export const maxInFlight = 8;
/** Maximum number of look-ups of one IP address that wait until others have ended. Further ones are rejected. */
const maxWaiting = 2_000;
/** Maximum time that a look-up waits until others have ended (ms). */
const waitMs = 10_000;

interface Address {
  /** Number of look-ups of this IP address that are waiting or running. */
  present: number;
  inFlight: number;
  /** The waiting look-ups in order of arrival, each as a function that starts it. */
  waiting: Set<() => void>;
}

/**
 * Limits how many API keys and session tokens of one IP address are looked up at the same time, if the address is above
 * its rate limit. So somebody who guesses keys causes little database load.
 */
export class LookupSlots {
  // A valid key from such an address is not rejected, only delayed.
  readonly #addresses = new Map<string, Address>();

  /**
   * Runs the look-up of a credential. If the IP address is above its rate limit and `maxInFlight` look-ups of it are
   * running, waits until one has ended.
   * @param name the IP address
   * @param isPast returns whether the address is above its rate limit; called only when `maxInFlight` look-ups of the
   *   address are running
   * @throws DomainError `unavailable` when the wait takes too long or too many look-ups are waiting
   */
  async run<T>(name: string, isPast: () => Promise<boolean>, lookUp: () => Promise<T>): Promise<T> {
    const address = this.#addresses.get(name) ?? { present: 0, inFlight: 0, waiting: new Set() };
    if (address.present === 0) this.#addresses.set(name, address);
    address.present += 1;
    try {
      if (address.inFlight < maxInFlight) address.inFlight += 1;
      else await enter(address, isPast);
      try {
        return await lookUp();
      } finally {
        leave(address);
      }
    } finally {
      address.present -= 1;
      if (address.present === 0) this.#addresses.delete(name);
    }
  }
}

async function enter(address: Address, isPast: () => Promise<boolean>): Promise<void> {
  const mustWait = (await isPast()) && address.inFlight >= maxInFlight; // some may have ended during the await
  if (mustWait) await turnOf(address);
  else address.inFlight += 1;
}

function turnOf({ waiting }: Address): Promise<void> {
  if (waiting.size >= maxWaiting) throw tooMany();
  return new Promise((resolve, reject) => {
    const admit = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      waiting.delete(admit);
      reject(tooMany());
    }, waitMs);
    waiting.add(admit);
  });
}

/** Frees the place of a look-up of this address that has ended. Starts the look-up that has waited longest, if any. */
function leave(address: Address): void {
  const [next] = address.waiting;
  if (next && address.inFlight <= maxInFlight) {
    address.waiting.delete(next);
    next();
  } else address.inFlight -= 1;
}

const tooMany = () => unavailable('Too many requests from this address wait for their keys to be checked');
