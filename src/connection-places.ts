/** Whoever can hold a place. */
export interface Holder {
  /** Holders of one group share what the group may hold; undefined for those that are not limited by group. */
  readonly group: string | undefined;
}

/** What came of asking for a place: whether it was given, and who lost theirs for it. */
export interface Admission<T> {
  admitted: boolean;
  evicted?: T;
}

/**
 * A bounded number of places for connections. When all are taken, the one that has been idle longest gives its place to the
 * next. A group that holds none gets any place; one that holds some holds no more than remain free, and beyond that gives up
 * one of its own idle ones for each new one.
 */
export class ConnectionPlaces<T extends Holder> {
  readonly #limit: number;
  #taken = 0;
  /** The longest idle first. */
  readonly #idle = new Set<T>();
  readonly #groups = new Map<string, { held: number; idle: Set<T> }>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Gives the newcomer a place, as one that is idle, if there is one for it. */
  admit(newcomer: T): Admission<T> {
    const { held, idle } = this.#groupOf(newcomer) ?? { held: 0, idle: this.#idle };
    const exceedsShare = held > 0 && held + 1 > this.#limit - this.#taken - 1;
    const evicted = exceedsShare ? first(idle) : this.#taken >= this.#limit ? first(this.#idle) : undefined;
    if (!evicted && (exceedsShare || this.#taken >= this.#limit)) return { admitted: false };
    if (evicted) this.release(evicted);
    this.#take(newcomer);
    return evicted ? { admitted: true, evicted } : { admitted: true };
  }

  /** Notes that a holder works from now on: its place is not given away. */
  setBusy(holder: T): void {
    this.#idle.delete(holder);
    this.#groupOf(holder)?.idle.delete(holder);
  }

  /** Notes that a holder is idle from now on. */
  setIdle(holder: T): void {
    this.#idle.add(holder);
    this.#groupOf(holder)?.idle.add(holder);
  }

  /** Frees a holder's place. */
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
