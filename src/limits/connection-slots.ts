/** An open connection, which takes one of the limited connection slots. */
export interface Holder {
  /**
   * Connections of the same group (usually the same IP address) share a limit. Undefined: only the limit for all
   * connections applies.
   */
  readonly group: string | undefined;
}

/** Tells whether a new connection was admitted, and which idle connection must be closed for it, if any. */
export interface Admission<T> {
  admitted: boolean;
  evicted?: T;
}

/**
 * Limits the number of open connections and shares them fairly between groups (usually IP addresses). When all slots
 * are taken, a new connection replaces the one that has been idle longest. A group may hold at most as many slots as
 * remain free; its first connection may take any free slot. Above that, a new connection of the group replaces an idle
 * one of the same group.
 */
export class ConnectionSlots<T extends Holder> {
  readonly #limit: number;
  #taken = 0;
  /** Idle connections, ordered by how long they have been idle, longest first. */
  readonly #idle = new Set<T>();
  readonly #groups = new Map<string, { held: number; idle: Set<T> }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Admits a new connection as idle, if a slot is free or an idle connection can be replaced. */
  admit(newcomer: T): Admission<T> {
    const { held, idle } = this.#groupOf(newcomer) ?? { held: 0, idle: this.#idle };
    const exceedsShare = held > 0 && held + 1 > this.#limit - this.#taken - 1;
    const evicted = exceedsShare ? first(idle) : this.#taken >= this.#limit ? first(this.#idle) : undefined;
    if (!evicted && (exceedsShare || this.#taken >= this.#limit)) return { admitted: false };
    if (evicted) this.release(evicted);
    this.#take(newcomer);
    return evicted ? { admitted: true, evicted } : { admitted: true };
  }

  /** Marks a connection as busy, so that it is not replaced by a new one. */
  setBusy(holder: T): void {
    this.#idle.delete(holder);
    this.#groupOf(holder)?.idle.delete(holder);
  }

  /** Marks a connection as idle, so that a new one may replace it. */
  setIdle(holder: T): void {
    this.#idle.add(holder);
    this.#groupOf(holder)?.idle.add(holder);
  }

  /** Releases the slot of a closed connection. */
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
