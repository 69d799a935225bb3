import { FairSlots } from '../../limits/gate.ts';
import type { EndpointRow } from '../../queries/jobs/endpoint-rows.ts';

/** What is known of an endpoint: its last delivery succeeded, it has had none that succeeded yet, or the last one failed. */
export type Standing = 'working' | 'new' | 'failing';

export const standingOf = ({
  failing_since,
  last_success_at,
}: Pick<EndpointRow, 'failing_since' | 'last_success_at'>): Standing => {
  if (failing_since !== null) return 'failing';
  return last_success_at === null ? 'new' : 'working';
};

/** A right to send one webhook at a time. */
export interface Slot {
  readonly isHeld: boolean;
  /** Further calls have no effect. */
  release(): void;
}

/** A delivery that takes longer than this lingers (ms). Many new endpoints can be dead at the same time. */
const lingersAfterMs = { working: 250, new: 100 };

/** How many deliveries may linger, for each slot. */
const lingering = 10;

/**
 * Limits how many webhooks this process sends at the same time. Customers share the slots fairly. Failing endpoints have
 * at most half of them, new ones a quarter, so endpoints that work always find some.
 *
 * An endpoint that was not known to fail can be dead, too: a delivery that lingers gives its slot back, and only waits on
 * for its answer. So a thousand endpoints that die at the same moment do not keep all slots until their time is over.
 */
export class DeliverySlots {
  readonly #all: FairSlots;
  readonly #of: Partial<Record<Standing, { slots: FairSlots; count: number }>>;
  readonly #mostLingering: number;
  #lingering = 0;

  constructor(count: number) {
    const part = (share: number) => {
      const most = Math.max(1, Math.floor(count * share));
      return { slots: new FairSlots(most), count: most };
    };
    this.#all = new FairSlots(count);
    this.#of = { failing: part(1 / 2), new: part(1 / 4) };
    this.#mostLingering = count * lingering;
  }

  /** How many endpoints of this standing can be sent to soon, at most. A slot of new ones is soon free again. */
  freeFor(standing: Standing): number {
    const { slots, count } = this.#of[standing] ?? {};
    return slots ? (count! - slots.taken) * (standing === 'new' ? 4 : 1) : Infinity;
  }

  /** Takes a slot, or returns undefined if the customer can have none now. */
  tryTake(customerId: string, standing: Standing): Slot | undefined {
    const part = this.#of[standing]?.slots;
    if (part && !part.tryTake(customerId)) return undefined;
    if (!this.#all.tryTake(customerId)) {
      part?.release(customerId);
      return undefined;
    }
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      this.#all.release(customerId);
      part?.release(customerId);
    };
    return {
      get isHeld() {
        return isHeld;
      },
      release,
    };
  }

  /** Runs a delivery in a slot, which it gives back if it lingers. Failing endpoints keep theirs. */
  async run<T>(slot: Slot, standing: Standing, deliver: () => Promise<T>): Promise<T> {
    if (standing === 'failing') return deliver();
    let lingers = false;
    const timer = setTimeout(() => {
      if (this.#lingering >= this.#mostLingering) return;
      lingers = true;
      this.#lingering += 1;
      slot.release();
    }, lingersAfterMs[standing]);
    try {
      return await deliver();
    } finally {
      clearTimeout(timer);
      if (lingers) this.#lingering -= 1;
    }
  }
}
