import { unavailable } from './errors.ts';

/** Look-ups that an address past its limit has under way at once. */
export const mostUnderWay = 8;
/** Look-ups of one address that may wait for one of these places, and how long each waits at most (ms). */
const mostWaiting = 2_000;
const waitMs = 10_000;

interface Address {
  /** Look-ups that wait or are under way. */
  present: number;
  underWay: number;
  /** In order of arrival; each is called when it has got the place of a look-up that ended. */
  waiting: Set<() => void>;
}

/**
 * The look-ups of credentials that are under way, by address. Those of an address past its limit wait for each other:
 * whoever tries keys keeps few places of the database busy, and a valid key from the same address still gets its turn.
 */
export class LookUpPlaces {
  readonly #addresses = new Map<string, Address>();

  /**
   * Runs a look-up, after waiting for a place if need be.
   * @param isPast whether the address is past its limit; asked only when it has as many look-ups under way as it may have then
   * @throws DomainError `unavailable` when there is no place in time
   */
  async run<T>(name: string, isPast: () => Promise<boolean>, lookUp: () => Promise<T>): Promise<T> {
    const address = this.#addresses.get(name) ?? { present: 0, underWay: 0, waiting: new Set() };
    if (address.present === 0) this.#addresses.set(name, address);
    address.present += 1;
    try {
      if (address.underWay < mostUnderWay) address.underWay += 1;
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
  const mustWait = (await isPast()) && address.underWay >= mostUnderWay; // some may have ended meanwhile
  if (mustWait) await turnOf(address);
  else address.underWay += 1;
}

function turnOf({ waiting }: Address): Promise<void> {
  if (waiting.size >= mostWaiting) throw tooMany();
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

/** Hands the place to whoever waits longest, or gives it back. */
function leave(address: Address): void {
  const [next] = address.waiting;
  if (next && address.underWay <= mostUnderWay) {
    address.waiting.delete(next);
    next();
  } else address.underWay -= 1;
}

const tooMany = () => unavailable('Too many requests from this address wait for their keys to be checked');
