import type { Queryable } from '../../database/db.ts';
import type { Detail, Line } from '../../schemas/opportunities.ts';
import { isSame } from '../records/journal.ts';
import { pick, readLater, shown, type Values } from './history.ts';
import { recordTypes } from '../../schemas/events.ts';
import type { EventActor, EventNoun, RecordVerb, UndoEstimate } from '../../schemas/events.ts';
import { constant } from '../../filters/sql.ts';
import { activityTable, companyTable, contactTable, opportunityTable, productTable } from '../records/batch-rows.ts';

export type { Values };

/** Effect of a change on one record: the sum of all its writes to the record. */
export interface Effect {
  id: string;
  noun: EventNoun;
  /** `none` means that the change created the record and deleted it again. */
  kind: 'created' | 'updated' | 'deleted' | 'none';
  /**
   * Values before the first write. For a deletion, all values that are not empty, and the record's lists and
   * opportunities.
   */
  before: Values;
  after: Values;
  first: number;
  last: number;
  merged_into: string | null;
  is_restored: boolean;
}

/**
 * Returns the SQL condition that a journal row belongs to the change. Use it in statements that find the row by its
 * record. With `=`, PostgreSQL could read all rows of the change instead.
 */
export const isOfChange = (sql: Queryable, changeId: string) => sql`change_id is not distinct from ${changeId}::uuid`;

// Written as a subquery for each row: with `not exists`, the planner may read all rows of the change for each batch.
const isFirst = (sql: Queryable, customerId: string, changeId: string) => sql`
  j.position = (
    select min(e.position)
    from journal e
    where e.customer_id = ${customerId}::uuid
      and e.record_id = j.record_id
      and e.${isOfChange(sql, changeId)}
      and e.type = any(${recordTypes}::text[])
  )`;

interface Part {
  id: string;
  /** True if the change merged the record into another one. The part then includes the activities that it moved. */
  isMerged: boolean;
}

async function findPart(
  sql: Queryable,
  customerId: string,
  changeId: string,
  id: string | undefined,
): Promise<Part | undefined> {
  if (id === undefined) return undefined;
  const merged = await sql`
    select 1
    from journal
    where customer_id = ${customerId}::uuid
      and record_id = ${id}::uuid
      and ${isOfChange(sql, changeId)}
      and data ->> 'merged_into' is not null`;
  return { id, isMerged: merged.length > 0 };
}

const isOfPart = (sql: Queryable, part: Part | undefined) => {
  if (!part) return sql``;
  const { id, isMerged } = part;
  if (!isMerged) return sql`and record_id = ${id}::uuid`;
  return sql`
    and (
      record_id = ${id}::uuid
      or (type = 'activity.updated' and ${id} in (before ->> 'contact_id', before ->> 'company_id'))
    )`;
};

interface Row {
  position: number;
  noun: EventNoun;
  verb: RecordVerb;
  record_id: string;
  merged_into: string | null;
  is_restored: boolean;
  before: Values | null;
  after: Values | null;
}

/**
 * Returns the effects of a change on its next records of one kind. The last record comes first, because later records
 * can refer to earlier ones.
 * @param range `before`: only records whose first write is below this position; `until`: ignore writes from this
 * position on; `only`: id of the only record to return
 */
export async function findEffects(
  sql: Queryable,
  customerId: string,
  changeId: string,
  { before, until, limit, only }: { before: number; until: number; limit: number; only?: string | undefined },
): Promise<Effect[]> {
  const part = await findPart(sql, customerId, changeId, only);
  const found = await sql<{ record_id: string; noun: EventNoun }[]>`
    select j.record_id, split_part(j.type, '.', 1) as noun
    from journal j
    where j.customer_id = ${customerId}::uuid
      and j.change_id = ${changeId}::uuid
      and j.position < ${before}
      and j.type = any(${recordTypes}::text[])
      ${isOfPart(sql, part)}
      and ${isFirst(sql, customerId, changeId)}
    order by j.position desc
    limit ${limit}`;
  const end = found.findIndex(({ noun }) => noun !== found[0]!.noun);
  const ids = found.slice(0, end < 0 ? limit : end).map(({ record_id }) => record_id);
  if (ids.length === 0) return [];
  const rows = await sql<Row[]>`
    select
      position, split_part(type, '.', 1) as noun, split_part(type, '.', 2) as verb, record_id,
      data ->> 'merged_into' as merged_into, coalesce((data ->> 'restored')::boolean, false) as is_restored, before,
      after
    from journal
    where customer_id = ${customerId}::uuid
      and record_id = any(${ids}::uuid[])
      and ${isOfChange(sql, changeId)}
      and position < ${until}
      and type = any(${recordTypes}::text[])
    order by position`;
  const byRecord = Map.groupBy(rows, ({ record_id }) => record_id);
  return ids.map((id) => effectOf(id, byRecord.get(id)!));
}

function effectOf(id: string, rows: readonly Row[]): Effect {
  const [first, last] = [rows[0]!, rows.at(-1)!];
  const { noun, merged_into } = last;
  const common = { id, noun, first: first.position, last: last.position, merged_into, is_restored: first.is_restored };
  if (first.verb === 'created')
    return { ...common, kind: last.verb === 'deleted' ? 'none' : 'created', before: {}, after: {} };
  const kind = last.verb === 'deleted' ? 'deleted' : 'updated';
  // Of several writes, the first says what was before, and the last what is after.
  const before = rows.reduceRight((values, row) => withValues(values, row.before, row.after), {} as Values);
  const after = rows.reduce((values, row) => withValues(values, row.after, row.before), {} as Values);
  return { ...common, kind, before, after };
}

/**
 * Adds the values on one side of a write (before or after it) to the known values of the record.
 * @param more values on this side of the write
 * @param others values on the other side. A custom field that only they have is removed
 */
function withValues(values: Values, more: Values | null, others: Values | null): Values {
  const [own, fields, absent] = [values, more, others].map((one) => one?.['custom_fields'] as Values | undefined);
  if (!fields) return { ...values, ...more };
  const kept = Object.entries(own ?? {}).filter(([key]) => !Object.hasOwn(absent ?? {}, key));
  return { ...values, ...more, custom_fields: { ...Object.fromEntries(kept), ...fields } };
}

interface ChangeSize {
  records: number;
  until: number;
  has_merges: boolean;
}

export async function measureChange(sql: Queryable, customerId: string, changeId: string, only?: string) {
  const part = await findPart(sql, customerId, changeId, only);
  const [size] = await sql<[ChangeSize & { types: string[] }]>`
    select
      count(distinct record_id) as records,
      coalesce(max(position), 0) + 1 as until,
      coalesce(bool_or(data ->> 'merged_into' is not null), false) as has_merges,
      coalesce(array_agg(distinct type), '{}') as types
    from journal
    where customer_id = ${customerId}::uuid
      and change_id = ${changeId}::uuid
      ${isOfPart(sql, part)}
      and type = any(${recordTypes}::text[])`;
  return size;
}

/**
 * Returns the ids of created records that have changed since. Writes that were undone do not count.
 * @param current current values of the records by id, in the form that `comparable` returns
 */
export async function findWrittenSince(
  sql: Queryable,
  customerId: string,
  effects: readonly Pick<Effect, 'id' | 'noun' | 'kind' | 'last'>[],
  current: ReadonlyMap<string, Values>,
): Promise<Set<string>> {
  const created = effects.filter(({ id, kind }) => kind === 'created' && current.has(id));
  if (created.length === 0) return new Set();
  const later = await readLater(
    sql,
    customerId,
    created.map(({ id, last }) => ({ record_id: id, position: last })),
  );
  const found = Map.groupBy(later, ({ position }) => position);
  const isWritten = ({ id, noun, last }: (typeof created)[number]): boolean => {
    const now = shown(current.get(id)!);
    const rows = found.get(last) ?? [];
    // Its deletion has kept all values that were not empty: others must be empty again.
    const known = new Set(rows.map(({ name }) => name));
    const isFilled =
      rows.some((row) => row.is_deletion) && Object.keys(pick(noun, now)).some((name) => !known.has(name));
    return (
      isFilled ||
      rows.some(
        ({ name, value }) => isMember(now, name) && !isSame(now[name!] ?? null, comparable(name!, value) ?? null),
      )
    );
  };
  return new Set(created.filter(isWritten).map(({ id }) => id));
}

/**
 * Removes the product names from a value of the field `details`, because they can change without a change of the
 * opportunity.
 */
export const comparable = (name: string, value: unknown): unknown =>
  name === 'details' ? (value as Detail[] | null)?.map(lineOf) : value;

const lineOf = ({ product_id, price, quantity }: Detail): Line => ({ id: product_id, price, quantity });

const isMember = (values: Values, name: string | null): boolean =>
  name !== null && (name in values || name.startsWith('custom_fields.'));

interface FieldWriter {
  record_id: string;
  field: string;
  actor: EventActor | null;
  occurred_at: string;
}

/** Returns, for each field of the records, who wrote it last after the change with these effects. */
export const findWriters = (
  sql: Queryable,
  customerId: string,
  effects: readonly Pick<Effect, 'id' | 'last'>[],
): Promise<FieldWriter[]> => sql`
  select distinct on (j.record_id, written.field) j.record_id, written.field, j.actor, j.occurred_at
  from unnest(
    ${effects.map(({ id }) => id)}::uuid[],
    ${effects.map(({ last }) => last)}::bigint[]
  ) as given (id, last)
  join journal j
    on j.customer_id = ${customerId}::uuid
    and j.record_id = given.id
    and j.position > given.last
    and j.type like '%.updated'
  cross join lateral (
    select key as field
    from json_object_keys(j.after) key
    where key <> 'custom_fields'
    union all
    select 'custom_fields.' || key
    from (
      select json_object_keys(j.before -> 'custom_fields')
      union
      select json_object_keys(j.after -> 'custom_fields')
    ) keys (key)
  ) written
  order by j.record_id, written.field, j.position desc`;

const recordTables = [contactTable, companyTable, productTable, opportunityTable, activityTable];

/**
 * Estimates the undo of a large change from the journal alone. Assumes that records updated since are kept. Assumes
 * that records without later changes are restored.
 */
export async function estimateUndo(sql: Queryable, customerId: string, changeId: string): Promise<UndoEstimate> {
  const [counts] = await sql<[UndoEstimate]>`
    with own as materialized (
      select
        record_id,
        max(position) as last,
        min(split_part(type, '.', 1)) as noun,
        max(before ->> 'external_id') filter (where type like '%.deleted') as external_id
      from journal
      where customer_id = ${customerId}::uuid
        and change_id = ${changeId}::uuid
        and type = any(${recordTypes}::text[])
      group by record_id
    ),
    later as materialized (
      select j.record_id, bool_and(j.type like '%.updated') as is_there
      from journal j
      join own on own.record_id = j.record_id and own.last < j.position
      where j.customer_id = ${customerId}::uuid
        and j.position > (select min(last) from own)
        and j.type = any(${recordTypes}::text[])
      group by j.record_id
    )
    select
      count(*) as records,
      count(*) filter (where later.record_id is null) as restored,
      count(*) filter (where later.is_there) as kept,
      count(*) filter (where later.record_id is null and (false
        ${recordTables.map(
          ({ kind, table, visible }) => sql`
            or (own.noun = ${kind.noun} and exists (
              select 1
              from ${constant(sql, table)} r
              where r.customer_id = ${customerId}::uuid
                and r.external_id = own.external_id
                and ${constant(sql, visible)}
            ))`,
        )}
      )) as conflicts
    from own
    left join later on later.record_id = own.record_id`;
  return counts;
}
