/** A connection that can hold a slot. */
export interface Holder {
  /** Holders of the same group share that group's limit. Undefined: no group limit applies. */
  readonly group: string | undefined;
}

/** The result of a request for a slot: whether it was granted, and which idle holder was evicted for it. */
export interface Admission<T> {
  admitted: boolean;
  evicted?: T;
}

/**
 * A bounded number of connection slots, shared fairly between groups. When all are taken, a newcomer evicts the holder
 * that has been idle longest. A group without a slot may take any free slot. A group with slots may hold at most as
 * many as remain free; above that, each new connection evicts one of the group's own idle ones.
 */
export class ConnectionSlots<T extends Holder> {
  readonly #limit: number;
  #taken = 0;
  /** Idle holders; the one idle longest comes first. */
  readonly #idle = new Set<T>();
  readonly #groups = new Map<string, { held: number; idle: Set<T> }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Admits a newcomer as idle if a slot is free or an idle holder can be evicted for it. */
  admit(newcomer: T): Admission<T> {
    const { held, idle } = this.#groupOf(newcomer) ?? { held: 0, idle: this.#idle };
    const exceedsShare = held > 0 && held + 1 > this.#limit - this.#taken - 1;
    const evicted = exceedsShare ? first(idle) : this.#taken >= this.#limit ? first(this.#idle) : undefined;
    if (!evicted && (exceedsShare || this.#taken >= this.#limit)) return { admitted: false };
    if (evicted) this.release(evicted);
    this.#take(newcomer);
    return evicted ? { admitted: true, evicted } : { admitted: true };
  }

  /** Marks a holder as busy: it cannot be evicted. */
  setBusy(holder: T): void {
    this.#idle.delete(holder);
    this.#groupOf(holder)?.idle.delete(holder);
  }

  /** Marks a holder as idle: it may be evicted. */
  setIdle(holder: T): void {
    this.#idle.add(holder);
    this.#groupOf(holder)?.idle.add(holder);
  }

  /** Releases a holder's slot. */
  release(holder: T): void {
    this.setBusy(holder);
    this.#taken -= 1;
    const group = this.#groupOf(holder);
    if (group && (group.held -= 1) === 0) this.#groups.delete(holder.group!);
  }

  #take(holder: T): void {
    this.#taken += 1;
    if (holder.group !== undefined) {
      const group = this.#groupOf(holder) ?? { held: 0, idle: new Set<T>() };
      group.held += 1;
      this.#groups.set(holder.group, group);
    }
    this.setIdle(holder);
  }

  #groupOf({ group }: T): { held: number; idle: Set<T> } | undefined {
    return group === undefined ? undefined : this.#groups.get(group);
  }
}

const first = <T>(set: Set<T>): T | undefined => set.values().next().value;
