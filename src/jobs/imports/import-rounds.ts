import { canonicalOf } from '../../queries/records/batch-matches.ts';
import type { ImportSettings } from '../../queries/imports/imports.ts';
import { fold } from '../../text/fold.ts';

type Item = Readonly<Record<string, unknown>>;

/** Rounds in one transaction. Reached only if one match value occurs very often. */
export const maxRounds = 20;

/**
 * Assigns records to rounds, which are written one after the other and each have a match value (e.g. an email) only
 * once. Records that could affect each other stay in the order of the file.
 */
export class Rounds {
  readonly #settings: ImportSettings;
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #latest = new Map<string, number>();
  /** External ids that a stored record may have when the next record changes it, by match value. */
  readonly #held = new Map<string, Set<string>>();

  /**
   * @param stored external ids of the stored records, by match value. Without them, rounds keep the file's order only
   * for external ids that the file itself contains
   * @param aliases match values that name the record of another match value
   */
  constructor(
    settings: ImportSettings,
    stored: ReadonlyMap<string, string> = new Map(),
    aliases: ReadonlyMap<string, string> = new Map(),
  ) {
    this.#settings = settings;
    this.#aliases = aliases;
    for (const [value, externalId] of stored) this.#held.set(value, new Set([externalId]));
  }

  /** Returns the number of the next record's round, from 0. */
  next(item: Item): number {
    const { own, shared } = this.#keysOf(item);
    const after = own.map((key) => (this.#latest.get(key) ?? -1) + 1);
    const atLeast = shared.map((key) => this.#latest.get(key) ?? 0);
    const round = Math.max(0, ...after, ...atLeast);
    for (const key of [...own, ...shared]) this.#latest.set(key, round);
    return round;
  }

  /**
   * Returns keys: records with the same `own` key need different rounds; those with the same `shared` key may be in
   * one. Rounds keep the order of such records.
   */
  #keysOf(item: Item): { own: string[]; shared: string[] } {
    const { match, dry_run: isDryRun } = this.#settings;
    const value = match === null ? undefined : canonicalOf(match)(String(item[match]));
    const own = value === undefined ? [] : [`match ${this.#aliases.get(value) ?? value}`];
    const externalIds = this.#externalIdsOf(item, value).map((externalId) => `external_id ${externalId}`);
    if (isDryRun) return { own: [...own, ...externalIds], shared: [] };
    const name = (item['company'] as { name?: string } | null | undefined)?.name;
    return { own, shared: [...externalIds, ...(name === undefined ? [] : [`company ${fold(name)}`])] };
  }

  /** Returns the external id that a record sets, and those that its stored record may lose thereby. */
  #externalIdsOf({ external_id: wanted }: Item, value: string | undefined): string[] {
    if (this.#settings.match === 'external_id' || wanted === undefined) return [];
    const set = typeof wanted === 'string' ? [wanted] : [];
    const held = (value === undefined ? undefined : this.#held.get(value)) ?? new Set();
    const concerned = held.union(new Set(set));
    if (value !== undefined) this.#held.set(value, concerned);
    return [...concerned];
  }
}
