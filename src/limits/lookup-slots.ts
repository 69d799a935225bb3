import { unavailable } from '../errors.ts';

/** Maximum number of database look-ups in flight for one IP address that is above its rate limit. */
export const maxInFlight = 8;
/** Maximum number of look-ups of one IP address that wait for others to end. More are rejected. */
const maxWaiting = 2_000;
/** Maximum time that a look-up waits for others to end (ms). */
const waitMs = 10_000;

interface Address {
  /** Look-ups of this address that are waiting or in flight. */
  present: number;
  inFlight: number;
  /** Waiting look-ups in order of arrival. Calling a function starts its look-up. */
  waiting: Set<() => void>;
}

/**
 * Limits how many credentials (API keys, session tokens) of one IP address are looked up at once, if the address is
 * above its rate limit. Somebody who guesses keys then causes little database load, and a valid key from the same
 * address is still looked up after a wait.
 */
export class LookupSlots {
  readonly #addresses = new Map<string, Address>();

  /**
   * Runs a look-up. If the address is above its rate limit and `maxInFlight` of its look-ups are running, waits until
   * one ends.
   * @param name the address
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

/** Called when a look-up has ended. Starts the look-up that has waited longest, if any. */
function leave(address: Address): void {
  const [next] = address.waiting;
  if (next && address.inFlight <= maxInFlight) {
    address.waiting.delete(next);
    next();
  } else address.inFlight -= 1;
}

const tooMany = () => unavailable('Too many requests from this address wait for their keys to be checked');
