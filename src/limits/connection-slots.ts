/** An open network connection. `ConnectionSlots` limits the number of open connections. */
export interface Holder {
  /**
   * The group of the connection, usually its IP address. The connections of one group share a limit. If the group is
   * undefined, only the limit for all connections applies.
   */
  readonly group: string | undefined;
}

/**
 * The result of `admit`. `admitted` is true if the new connection is accepted. `evicted` is the idle connection, if
 * any, that the caller of `admit` must close to make room for the new one.
 */
export interface Admission<T> {
  admitted: boolean;
  evicted?: T;
}

/**
 * Limits the number of open connections. Divides the allowed connections fairly among groups (usually IP addresses).
 * When the limit is reached, a new connection replaces the connection that has been idle longest.
 */
export class ConnectionSlots<T extends Holder> {
  readonly #limit: number;
  #taken = 0;
  /** The idle connections, ordered by how long they have been idle, longest first. */
  readonly #idle = new Set<T>();
  readonly #groups = new Map<string, { held: number; idle: Set<T> }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Accepts a new connection if the limits allow this, or if an idle connection can be closed instead. An accepted
   * connection is marked as idle.
   */
  admit(newcomer: T): Admission<T> {
    const { held, idle } = this.#groupOf(newcomer) ?? { held: 0, idle: this.#idle };
    // A group may hold at most as many slots as remain free; its first connection may take any free slot. Above that, a
    // new connection of the group replaces an idle one of the same group.
    const exceedsShare = held > 0 && held + 1 > this.#limit - this.#taken - 1;
    const evicted = exceedsShare ? first(idle) : this.#taken >= this.#limit ? first(this.#idle) : undefined;
    if (!evicted && (exceedsShare || this.#taken >= this.#limit)) return { admitted: false };
    if (evicted) this.release(evicted);
    this.#take(newcomer);
    return evicted ? { admitted: true, evicted } : { admitted: true };
  }

  /** Marks a connection as busy. A busy connection is never closed to accept a new one. */
  setBusy(holder: T): void {
    this.#idle.delete(holder);
    this.#groupOf(holder)?.idle.delete(holder);
  }

  /** Marks a connection as idle. An idle connection may be closed to accept a new one. */
  setIdle(holder: T): void {
    this.#idle.add(holder);
    this.#groupOf(holder)?.idle.add(holder);
  }

  /** Removes a closed connection from the count, so that a new connection can be accepted. */
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
