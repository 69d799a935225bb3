import type { LockedId, Transaction } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import { constant, liveLists } from '../../filters/sql.ts';
import type { Rule } from '../../schemas/lists.ts';
import { opportunityFields, type Line } from '../../schemas/opportunities.ts';
import { productFields } from '../../schemas/products.ts';
import {
  findActivities,
  referencesOf as referencesOfActivity,
  restoreActivities,
  activityWrites,
} from '../crm/activities.ts';
import { deleteList, hasRoomForRules, updateList } from '../crm/lists.ts';
import type { RecordTable, WriteBatch } from '../records/batches.ts';
import { lockBulk } from '../records/deferred-writes.ts';
import type { FindRecords } from '../records/finders.ts';
import { lockReferences, type Reference } from '../records/references.ts';
import { activityTable, insertRows, opportunityTable, productTable } from '../records/batch-rows.ts';
import { reattachActivities } from '../crm/links.ts';
import { setParts, sumOf, findOpportunities, referencesOf, opportunityWrites } from '../crm/opportunities.ts';
import type { Parts } from '../crm/opportunities.ts';
import { findProducts, productWrites } from '../crm/products.ts';
import { comparable, type Values } from './effects.ts';
import { pickSettable } from './history.ts';
import { keep, lockPresent, lostOf, outcomeOf, revert, undoCreated, undoDeleted } from './undo-links.ts';
import type { Deleted, KeptReason, Outcome, Undoing } from './undo-links.ts';

interface RecordUndo {
  records?: RecordTable;
  referencesOf?: (values: Values) => Reference[];
  lock: (sql: Transaction, customerId: string, ids: readonly string[]) => Promise<{ id: string }[]>;
  write: WriteBatch;
  bodyOf?: (columns: Values, missing: ReadonlySet<string>) => Values;
  /**
   * Restores deleted records.
   * @param deleted records with all values that the journal keeps
   * @param missing ids of referenced records that do not exist
   * @returns the outcomes of records that were not restored completely
   */
  restore: (
    sql: Transaction,
    customerId: string,
    deleted: readonly Deleted[],
    missing: ReadonlySet<string>,
  ) => Promise<Map<string, Outcome>>;
}

export async function undoOthers(undoing: Undoing): Promise<Map<string, Outcome>> {
  const { sql, customerId, effects, deferred } = undoing;
  const { noun } = effects[0]!;
  const { records, referencesOf: refer, bodyOf, ...others } = kinds[noun as keyof typeof kinds];
  const own = (values: object): Values => comparableOf(pickSettable(noun, values as Values));
  const write = async (operation: 'update' | 'delete', items: readonly { id: string }[]) => {
    const batch = { operation, match: 'id', isAtomic: false, mayExchange: true, items } as const;
    return items.length === 0 ? [] : others.write(sql, customerId, batch, deferred);
  };
  await lockBulk(sql, customerId);
  const references = refer ? effects.flatMap(({ before }) => refer(comparableOf(before))) : [];
  const missing = new Set((await lockReferences(sql, customerId, references)).map(({ id }) => id));
  const found = await others.lock(
    sql,
    customerId,
    effects.map(({ id }) => id),
  );
  const current = new Map(found.map((record) => [record.id, own(record)]));
  const outcomes = await undoCreated(
    undoing,
    current,
    async () => new Set(),
    async (ids) => {
      const items = ids.map((id) => ({ id }));
      for (const outcome of await write('delete', items)) if (outcome.status === 'failed') throw outcome.error;
    },
  );

  const updated = effects.flatMap((effect) => {
    const now = effect.kind === 'updated' ? current.get(effect.id) : undefined;
    const change = { ...effect, before: own(effect.before), after: own(effect.after) };
    return now ? [{ id: effect.id, reverted: revert(now, change) }] : [];
  });
  const isOpen = ({ reverted }: (typeof updated)[number]): boolean => reverted.restored.length > 0;
  for (let open = updated.filter(isOpen); open.length > 0;) {
    const written = await write(
      'update',
      open.map(({ id, reverted: { columns } }) => ({ ...(bodyOf?.(columns, missing) ?? columns), id })),
    );
    const refused = open.flatMap((one, i) => {
      const outcome = written[i]!;
      return outcome.status === 'failed' ? [{ ...one, ...refusalOf(outcome.error) }] : [];
    });
    // A record that is refused for another reason may still give up an external id.
    const first = refused.filter(({ reason }) => reason !== 'taken');
    for (const { reverted, fields, reason } of first.length > 0 ? first : refused)
      for (const field of fields) keep(reverted, field, reason);
    open = refused.filter(isOpen);
  }
  for (const { id, reverted } of updated) outcomes.set(id, outcomeOf(reverted));

  await undoDeleted(undoing, current, outcomes, records, (deleted) =>
    others.restore(sql, customerId, deleted.map(comparableOf), missing),
  );
  return outcomes;
}

function refusalOf(error: DomainError): { fields: string[]; reason: KeptReason } {
  const reasons: Partial<Record<string, KeptReason>> = {
    not_found: 'gone',
    conflict: 'taken',
    // It contradicts what was written since.
    validation_failed: 'changed_since',
  };
  const reason = reasons[error.code];
  if (!reason || error.faults.length === 0) throw error;
  const names = new Set(error.faults.map(({ path }) => path.split('/')[1]!));
  return { reason, fields: Array.from(names, (name) => (name === 'products' ? 'details' : name)) };
}

const comparableOf = <T extends Values>(values: T): T =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, comparable(name, value)])) as T;

const lists: RecordUndo = {
  lock: (sql, customerId, ids) => sql<{ id: string }[]>`
    select l.id, l.name, l.description, l.rules
    from ${liveLists(sql, customerId)}
      and l.id = any(${ids as string[]}::uuid[])
    order by l.id
    for no key update`,
  write: async (sql, customerId, { operation, items }) => {
    const outcomes: Awaited<ReturnType<WriteBatch>> = [];
    for (const { id, ...columns } of items as (Values & { id: LockedId })[])
      try {
        if (operation === 'delete') await deleteList(sql, customerId, id);
        else await updateList(sql, customerId, id, columns);
        outcomes.push({ status: 'updated', id });
      } catch (error) {
        if (!(error instanceof DomainError)) throw error;
        outcomes.push({ status: 'failed', error });
      }
    return outcomes;
  },
  restore: async (sql, customerId, deleted) => {
    const failures = new Map<string, Outcome>();
    for (const { id, rules = [] } of deleted) {
      if ((rules as Rule[]).length > 0 && !(await hasRoomForRules(sql, customerId))) {
        failures.set(id, { status: 'failed', reason: 'taken' });
        continue;
      }
      const { count } = await sql`
        update lists
        set deleted_at = null, counted_at = null, updated_at = (select clock_timestamp())
        where customer_id = ${customerId}
          and id = ${id}`;
      if (count === 0) failures.set(id, { status: 'failed', reason: 'gone' });
    }
    return failures;
  },
};

const lockThen =
  ({ table }: RecordTable, find: FindRecords<{ id: string }>): RecordUndo['lock'] =>
  async (sql, customerId, ids) => {
    await sql`
      select id
      from ${constant(sql, table)}
      where customer_id = ${customerId}
        and id = any(${ids as string[]}::uuid[])
      order by id
      for update`;
    return find(sql, customerId, ids);
  };

const products: RecordUndo = {
  records: productTable,
  lock: lockThen(productTable, findProducts),
  write: productWrites.write,
  // The row of a product is still there if opportunities use it.
  restore: async (sql, customerId, deleted) => {
    const columns = constant(sql, ['id', ...productFields].join(', '));
    await sql`
      insert into products (customer_id, ${columns})
      select ${customerId}, ${columns}
      from jsonb_populate_recordset(null::products, ${sql.json(deleted as never)})
      on conflict (customer_id, id) do update
      set deleted_at = null, external_id = excluded.external_id, updated_at = excluded.updated_at`;
    return new Map();
  },
};

const opportunities: RecordUndo = {
  records: opportunityTable,
  referencesOf: ({ details = [], ...values }) => referencesOf({ ...values, products: details as Line[] }),
  lock: lockThen(opportunityTable, findOpportunities),
  write: opportunityWrites.write,
  bodyOf: ({ details, contacts_ids, ...columns }, missing) => ({
    ...columns,
    ...(contacts_ids !== undefined && { contacts_ids: without(missing, contacts_ids) }),
    ...(details !== undefined && { products: details }),
  }),
  restore: async (sql, customerId, deleted, missing) => {
    const linesOf = ({ details = [] }: Values) => details as Line[];
    // Rows of deleted products stay while an opportunity uses them.
    const productIds = deleted.flatMap(linesOf).map(({ id }) => id);
    const known = new Set(await lockPresent(sql, customerId, 'products', productIds));
    // Rows of deleted companies stay too. An opportunity belongs to its company again when the company is restored.
    const companyIds = deleted.flatMap(({ company_id }) => (company_id as string | undefined) ?? []);
    const companies = new Set<unknown>(await lockPresent(sql, customerId, 'companies', companyIds));
    const outcomes = new Map<string, Outcome>();
    const parts = new Map<string, Omit<Parts, 'id'>>();
    for (const { id, stage_id, user_id_assigned, contacts_ids = [], ...values } of deleted)
      if ([stage_id, user_id_assigned].some((one) => missing.has(one as string)))
        outcomes.set(id, { status: 'failed', reason: 'gone' });
      else {
        const lines = linesOf(values);
        const details = lines.filter((line) => known.has(line.id)).map((line) => ({ ...line, product_id: line.id }));
        parts.set(id, { stage_id: stage_id as string, contacts_ids: without(missing, contacts_ids), details });
        if (details.length < lines.length) outcomes.set(id, { status: 'succeeded', reason: 'gone', kept: ['details'] });
      }
    const rows = deleted.filter(({ id }) => parts.has(id));
    const table = { name: 'opportunities', columns: ['id', ...opportunityFields, 'price'] } as const;
    const ids = await insertRows<Deleted, Values>(sql, customerId, table, rows, ({ id, ...values }) => ({
      id,
      ...Object.fromEntries(opportunityFields.map((name) => [name, values[name] ?? null])),
      ...(!companies.has(values['company_id']) && { company_id: null }),
      price: sumOf(parts.get(id)!.details),
    }));
    await setParts(
      sql,
      customerId,
      ids.map((id) => ({ ...parts.get(id)!, id })),
    );
    await reattachActivities(sql, customerId, 'opportunity', ids);
    return outcomes;
  },
};

const without = (missing: ReadonlySet<string>, ids: unknown): string[] =>
  (ids as string[]).filter((id) => !missing.has(id));

const activities: RecordUndo = {
  records: activityTable,
  referencesOf: referencesOfActivity,
  lock: lockThen(activityTable, findActivities),
  write: activityWrites.write,
  restore: async (sql, customerId, deleted, missing) =>
    lostOf(deleted, await restoreActivities(sql, customerId, deleted, missing)),
};

const kinds = { list: lists, product: products, opportunity: opportunities, activity: activities };
