import type { Queryable, Transaction } from '../../database/db.ts';
import { findCompanies } from '../../queries/crm/companies.ts';
import type { NewEvent } from '../../queries/events/journal.ts';
import { shown } from '../../queries/history/history.ts';
import type { Outcome } from '../../queries/records/batches.ts';
import { withoutLastWrites, type LastWrites } from '../../queries/records/last-writes.ts';
import type { ImportChange } from '../../schemas/imports.ts';

/** Records of a dry run that `changes` shows. */
export const maxChanges = 20;

/** Ends the part of the transaction that is rolled back. */
class RolledBack extends Error {}

/** Writes records as an import does, rolls them back, and keeps what they would change. */
export class Trial {
  readonly #fields = new Map<string, ImportChange['fields']>();
  readonly #limit: number;

  /** @param limit number of records whose changes are kept */
  constructor(limit = maxChanges) {
    this.#limit = limit;
  }

  /** Returns what `write` returns. */
  async run<T>(
    sql: Transaction,
    customerId: string,
    write: (attempt: Transaction, last: LastWrites) => Promise<T>,
  ): Promise<T> {
    let result: T;
    const undone = sql.savepoint(async (attempt) => {
      await withoutLastWrites(async (last) => {
        result = await write(attempt as Transaction, last);
        await this.#keep(attempt, customerId, last.events);
      });
      throw new RolledBack();
    });
    await undone.catch((error: unknown) => {
      if (!(error instanceof RolledBack)) throw error;
    });
    return result!;
  }

  async #keep(sql: Queryable, customerId: string, events: readonly NewEvent[]): Promise<void> {
    const updates = events.flatMap(({ data, before, after }) =>
      before && after ? [{ ...(data as { id: string }), old: shown({ ...before }), now: shown({ ...after }) }] : [],
    );
    const first = updates.filter(({ id }) => !this.#fields.has(id)).slice(0, this.#limit - this.#fields.size);
    if (first.length === 0) return;
    const companies = first.flatMap(({ old, now }) => [old['company'], now['company']]).filter((id) => id !== null);
    const names = await namesOf(sql, customerId, companies.filter((id) => id !== undefined) as string[]);
    const told = (name: string, value: unknown = null) => (name === 'company' ? (names.get(value) ?? null) : value);
    for (const { id, old, now } of first)
      this.#fields.set(
        id,
        Object.fromEntries(Object.keys(now).map((name) => [name, [told(name, old[name]), told(name, now[name])]])),
      );
  }

  /**
   * Returns what the first records would change, of a stored record what the first of them would.
   * @param lines of the records, in the order of their outcomes
   */
  changesOf(lines: readonly number[], outcomes: readonly Outcome[]): ImportChange[] {
    const changes = new Map<string, ImportChange>();
    for (const [i, outcome] of outcomes.entries()) {
      const fields = outcome.status === 'updated' ? this.#fields.get(outcome.id) : undefined;
      if (outcome.status === 'updated' && fields && !changes.has(outcome.id))
        changes.set(outcome.id, { line: lines[i]!, id: outcome.id, fields });
    }
    return [...changes.values()];
  }
}

async function namesOf(sql: Queryable, customerId: string, ids: string[]): Promise<Map<unknown, string>> {
  const companies = ids.length === 0 ? [] : await findCompanies(sql, customerId, [...new Set(ids)]);
  return new Map(companies.map(({ id, company_name }) => [id, company_name]));
}
