import { canonicalOf } from '../queries/batch-matches.ts';
import type { ImportSettings } from '../queries/imports.ts';
import { fold } from '../text/fold.ts';

type Item = Readonly<Record<string, unknown>>;

/**
 * Maximum number of batches that one transaction writes. It is reached only if the same match value comes again and again
 * in nearby records.
 */
export const maxRounds = 20;

/**
 * Distributes records to batches ("rounds"), because a batch takes each match value only once. Writing the rounds in order
 * gives the same result as writing the records one by one: records that could affect each other, because they have the
 * same match value, `external_id` or name of a company, stay in order.
 */
export class Rounds {
  readonly #settings: ImportSettings;
  readonly #latest = new Map<string, number>();

  constructor(settings: ImportSettings) {
    this.#settings = settings;
  }

  /** Returns the round of the next record, counted from 0. */
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
 * Returns what a record may not share with another record of its round (`own`), and what it may share only with records
 * before it in its round, or in earlier rounds (`shared`). A dry run judges each record alone, so none may see what another
 * one takes.
 */
function keysOf({ match, dry_run: isDryRun }: ImportSettings, item: Item): { own: string[]; shared: string[] } {
  const own = match === null ? [] : [`match ${canonicalOf(match)(String(item[match]))}`];
  const externalId = match !== 'external_id' && typeof item['external_id'] === 'string';
  const unique = externalId ? [`external_id ${String(item['external_id'])}`] : [];
  if (isDryRun) return { own: [...own, ...unique], shared: [] };
  const name = (item['company'] as { name?: string } | null | undefined)?.name;
  return { own, shared: [...unique, ...(name === undefined ? [] : [`company ${fold(name)}`])] };
}
