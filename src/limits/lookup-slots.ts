import { unavailable } from '../errors.ts';

/** Maximum number of look-ups in flight for one address above its rate limit. */
export const maxInFlight = 8;
/** Maximum number of look-ups of one address that wait for a slot. */
const maxWaiting = 2_000;
/** Maximum wait for a slot (ms). */
const waitMs = 10_000;

interface Address {
  /** Look-ups that wait or are in flight. */
  present: number;
  inFlight: number;
  /** Waiting look-ups in order of arrival. Each function is called when a look-up that ended hands over its slot. */
  waiting: Set<() => void>;
}

/**
 * Limits the credential look-ups in flight of each address that is above its rate limit. Guessing keys then occupies
 * few database slots, and a valid key from the same address is still looked up in its turn.
 */
export class LookupSlots {
  readonly #addresses = new Map<string, Address>();

  /**
   * Runs a look-up, after waiting for a slot if none is free.
   * @param isPast returns whether the address is above its limit; called only when `maxInFlight` look-ups of the
   *   address are in flight
   * @throws DomainError `unavailable` when no slot becomes free in time
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

/** Hands the slot of an ended look-up to the one that has waited longest, or releases it. */
function leave(address: Address): void {
  const [next] = address.waiting;
  if (next && address.inFlight <= maxInFlight) {
    address.waiting.delete(next);
    next();
  } else address.inFlight -= 1;
}

const tooMany = () => unavailable('Too many requests from this address wait for their keys to be checked');
