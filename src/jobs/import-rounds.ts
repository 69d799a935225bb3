import { canonicalOf } from '../queries/batch-matches.ts';
import type { ImportSettings } from '../queries/imports.ts';
import { fold } from '../text/fold.ts';

type Item = Readonly<Record<string, unknown>>;

/**
 * Maximum number of rounds in one transaction. Records with the same value in the field that identifies them, for
 * example the same email, are written in rounds, one after the other. So the limit is reached only if a value occurs
 * very often.
 */
export const maxRounds = 20;

/**
 * Assigns records of a file to rounds that are written one after the other. A round must not contain two records with
 * the same value in the identifying field (for example the same email). Records that could affect each other stay in
 * the order of the file.
 */
export class Rounds {
  readonly #settings: ImportSettings;
  readonly #latest = new Map<string, number>();

  constructor(settings: ImportSettings) {
    this.#settings = settings;
  }

  /** Returns the number of the round for the next record. The first round has the number 0. */
  next(item: Item): number {
    const { own, shared } = keysOf(this.#settings, item);
    const after = own.map((key) => (this.#latest.get(key) ?? -1) + 1);
    const atLeast = shared.map((key) => this.#latest.get(key) ?? 0);
    const round = Math.max(0, ...after, ...atLeast);
    for (const key of [...own, ...shared]) this.#latest.set(key, round);
    return round;
  }
}

/**
 * Returns two kinds of keys that determine the round of a record. Two records with the same `own` key must be in
 * different rounds; two records with the same `shared` key may be in the same round. Rounds keep the order of such
 * records in the file.
 */
function keysOf({ match, dry_run: isDryRun }: ImportSettings, item: Item): { own: string[]; shared: string[] } {
  const own = match === null ? [] : [`match ${canonicalOf(match)(String(item[match]))}`];
  const externalId = match !== 'external_id' && typeof item['external_id'] === 'string';
  const unique = externalId ? [`external_id ${String(item['external_id'])}`] : [];
  if (isDryRun) return { own: [...own, ...unique], shared: [] };
  const name = (item['company'] as { name?: string } | null | undefined)?.name;
  return { own, shared: [...unique, ...(name === undefined ? [] : [`company ${fold(name)}`])] };
}
