import { unavailable } from '../errors.ts';

/**
 * Maximum number of database look-ups of API keys and session tokens that run at the same time for one IP address.
 * Applies only while the IP address exceeds its rate limit.
 */
export const maxInFlight = 8;
/** Maximum number of waiting look-ups of API keys and session tokens for one IP address. Further ones are rejected. */
const maxWaiting = 2_000;
/** Maximum time that the look-up of an API key or session token waits to start (ms). */
const waitMs = 10_000;

interface Address {
  /** Number of look-ups of API keys and session tokens, waiting or running, for this IP address. */
  present: number;
  inFlight: number;
  /** The functions that start the waiting look-ups, in order of arrival. */
  waiting: Set<() => void>;
}

/**
 * Limits how many API keys and session tokens are looked up in the database at the same time for one IP address. The
 * limit applies only to IP addresses that exceed their rate limit, for example because somebody guesses keys.
 */
export class LookupSlots {
  // A valid key from such an address is not rejected, only delayed.
  readonly #addresses = new Map<string, Address>();

  /**
   * Looks up an API key or session token for an IP address. If the IP address exceeds its rate limit and already has
   * `maxInFlight` running look-ups, waits until one of these look-ups has ended.
   * @param name The IP address.
   * @param isPast Returns true if the IP address exceeds its rate limit. The function is called only if `maxInFlight`
   *   look-ups are running for the IP address.
   * @param lookUp Reads the API key or session token from the database.
   * @throws DomainError `unavailable` if the wait takes too long or too many look-ups are waiting.
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

/**
 * Called when a look-up has ended. Starts the look-up that has waited longest for the same IP address. If none is
 * waiting, or too many are running, decreases the number of running look-ups.
 */
function leave(address: Address): void {
  const [next] = address.waiting;
  if (next && address.inFlight <= maxInFlight) {
    address.waiting.delete(next);
    next();
  } else address.inFlight -= 1;
}

const tooMany = () => unavailable('Too many requests from this address wait for their keys to be checked');
