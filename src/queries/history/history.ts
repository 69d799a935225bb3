import type { FindRecords } from '../records/finders.ts';
import type { Queryable, Database } from '../../database/db.ts';
import { recordTypes, eventNouns, recordVerbs } from '../../schemas/events.ts';
import type { EventNoun, Change, ChangeQuery, ChangeSummary, EventActor, EventSource } from '../../schemas/events.ts';
import type { RecordVerb } from '../../schemas/events.ts';
import { findActivities } from '../crm/activities.ts';
import { findCompanies } from '../crm/companies.ts';
import { findContacts } from '../crm/contacts.ts';
import { findLists } from '../crm/lists.ts';
import { findOpportunities } from '../crm/opportunities.ts';
import { findProducts } from '../crm/products.ts';
import { liveLists } from '../../filters/sql.ts';
import { activityFields } from '../../schemas/activities.ts';
import { companyFields } from '../../schemas/companies.ts';
import { contactFields } from '../../schemas/contacts.ts';
import { opportunityFields } from '../../schemas/opportunities.ts';
import { productFields } from '../../schemas/products.ts';
import { unpublishedColumns } from '../records/journal.ts';
import { findPositionAt, newestPlace } from '../records/feed.ts';
import { findTakenBack, findUndoState, type TakenBack } from './undo-state.ts';

interface Subject {
  id: string;
  noun: EventNoun;
  /** Values that the record had at its last deletion, or null. */
  deleted: Values | null;
}

export const findSubjects = (sql: Queryable, customerId: string, ids: readonly string[]) => sql<Subject[]>`
  select distinct on (record_id)
    record_id as id,
    split_part(type, '.', 1) as noun,
    case when type like '%.deleted' then before end as deleted
  from journal
  where customer_id = ${customerId}::uuid
    and record_id = any(${ids as string[]}::uuid[])
    and type = any(${recordTypes}::text[])
  order by record_id, type like '%.deleted' desc, position desc`;

const finders: Record<Exclude<EventNoun, 'list'>, FindRecords<{ id: string }>> = {
  contact: findContacts,
  company: findCompanies,
  product: findProducts,
  opportunity: findOpportunities,
  activity: findActivities,
};

export const findRecords = (
  db: Database,
  customerId: string,
  noun: EventNoun,
  ids: string[],
): Promise<{ id: string }[]> =>
  noun === 'list' ? findLists(db, customerId, ids) : db.lookup((sql) => finders[noun](sql, customerId, ids));

export type Values = Record<string, unknown>;

/** Names of the fields that people can set, by kind of record. They are in the order of display. */
const settable: Record<EventNoun, readonly string[]> = {
  contact: [...contactFields, 'company'],
  company: companyFields,
  list: ['name', 'description', 'rules'],
  product: productFields,
  opportunity: [...opportunityFields, 'company', 'contacts_ids', 'details'],
  activity: [...activityFields, 'company'],
};

const span = 10_000;

interface Row {
  position: number;
  noun: EventNoun;
  verb: Change['type'];
  record_id: string;
  occurred_at: string;
  source: EventSource;
  actor: EventActor | null;
  change_id: string | null;
  merged_into: string | null;
  before: Values | null;
  after: Values | null;
}

interface ChangeSearch {
  filters?: ChangeQuery['filters'];
  verb?: Change['type'];
  notBy?: string;
  /** True: also the merges of other records into `filters.record_id`. */
  withMerged?: true;
  before?: number | undefined;
  limit: number;
}

/**
 * Returns a page of changes. It can have fewer than `limit` changes, or none, even if there is a next page.
 * @param nouns kinds of records that the caller may read
 */
export async function listChanges(
  db: Database,
  customerId: string,
  nouns: readonly EventNoun[],
  { filters = {}, verb, notBy, withMerged, before, limit }: ChangeSearch,
): Promise<{ changes: Change[]; next: number | undefined }> {
  const end =
    before ?? (await db.lookup((sql) => sql<[{ position: number }]>`${newestPlace(sql, customerId)}`))[0].position + 1;
  const positionAt = async (...instant: [string, 'behind'?]) =>
    (await findPositionAt(db, customerId, ...instant)).position;
  const until = filters.until === undefined ? end : Math.min(end, (await positionAt(filters.until, 'behind')) + 1);
  const since = filters.since === undefined ? 0 : await positionAt(filters.since);
  // With one of these an index finds the rows.
  const isIndexed = filters.record_id !== undefined || filters.change_id !== undefined;
  const begin = isIndexed ? since : Math.max(since, until - span - 1);
  // A change can have written a million records.
  const read = filters.change_id === undefined ? db.lookup : db.search;
  const { record_id, change_id, actor_id = null, source = null } = filters;
  const rows = await read(
    (sql) => sql<Row[]>`
      select
        position,
        split_part(type, '.', 1) as noun,
        split_part(type, '.', 2) as verb,
        record_id, occurred_at, source, actor, change_id,
        data ->> 'merged_into' as merged_into,
        before, after
      from journal
      where customer_id = ${customerId}
        and position > ${begin}
        and position < ${until}
        and type = any(${typesOf(filters.object ? [filters.object] : nouns, verb)}::text[])
        ${record_id === undefined || withMerged ? sql`` : sql`and record_id = ${record_id}`}
        ${record_id === undefined || !withMerged ? sql`` : sql`and ${isOfMerged(sql, customerId, record_id)}`}
        ${change_id === undefined ? sql`` : sql`and change_id = ${change_id}`}
        and (${actor_id}::text is null or actor ->> 'id' = ${actor_id})
        and (${notBy ?? null}::text is null or actor ->> 'id' is distinct from ${notBy ?? null})
        and (${source}::text is null or source = ${source})
        and (${filters.since ?? null}::timestamptz is null or occurred_at >= ${filters.since ?? null}::timestamptz)
        and (${filters.until ?? null}::timestamptz is null or occurred_at < ${filters.until ?? null}::timestamptz)
      order by position desc
      limit ${limit}`,
  );
  const created = rows.filter(({ verb }) => verb === 'created');
  const valuesOf = await valuesAtCreation(db, customerId, created);
  const isLast = rows.length < limit && begin <= since;
  return {
    changes: rows.map((row) => toChange(row, valuesOf)),
    next: isLast ? undefined : rows.length === limit ? rows.at(-1)!.position : begin + 1,
  };
}

const isOfMerged = (sql: Queryable, customerId: string, id: string) => sql`
  record_id = any(${id}::uuid || array(
    select id
    from merged_records
    where customer_id = ${customerId}
      and merged_into = ${id}))
  and (record_id = ${id} or data ->> 'merged_into' = ${id}::text)`;

const typesOf = (nouns: readonly EventNoun[], verb?: Change['type']): string[] =>
  nouns.flatMap((noun) => (verb ? [verb] : recordVerbs).map((one) => `${noun}.${one}`));

function toChange(
  { noun, verb, before, after, merged_into, ...row }: Row,
  valuesOf: (position: number) => Values,
): Change {
  const [old, current] =
    verb === 'created'
      ? [{}, valuesOf(row.position)]
      : verb === 'deleted'
        ? [pick(noun, shown(before)), {}]
        : [shown(before), shown(after)];
  const names = new Set([...Object.keys(old), ...Object.keys(current)]);
  return {
    ...row,
    object: noun,
    type: verb,
    fields: Object.fromEntries([...names].map((name) => [name, [old[name] ?? null, current[name] ?? null]])),
    ...(merged_into !== null && { merged_into }),
  };
}

export function shown(values: Values | null): Values {
  const { custom_fields = {}, company_id, ...others } = values ?? {};
  const custom = Object.entries(custom_fields as Values).map(([key, value]) => [`custom_fields.${key}`, value]);
  const company = company_id === undefined ? [] : [['company', company_id]];
  return Object.fromEntries([
    ...Object.entries(others).filter(([name]) => !unpublishedColumns.has(name)),
    ...company,
    ...custom,
  ]);
}

export const pickSettable = (noun: EventNoun, values: Values): Values =>
  Object.fromEntries(
    Object.entries(values).filter(([name]) => settable[noun].includes(name) || name.startsWith('custom_fields.')),
  );

export const pick = (noun: EventNoun, values: Values): Values =>
  Object.fromEntries(
    Object.entries(pickSettable(noun, values)).filter(
      ([, value]) => value !== null && value !== '' && !(Array.isArray(value) && value.length === 0),
    ),
  );

/**
 * Returns the values that records had when they were created. The journal does not contain them, so they are taken from
 * the next change or from the current record.
 */
async function valuesAtCreation(
  db: Database,
  customerId: string,
  created: readonly Row[],
): Promise<(position: number) => Values> {
  if (created.length === 0) return () => ({});
  const found = new Map<number, Values>(created.map(({ position }) => [position, {}]));
  const isGone = new Set<number>();
  const later = await db.lookup((sql) => readLater(sql, customerId, created));
  for (const { position, name, value, is_deletion } of later) {
    if (is_deletion) isGone.add(position);
    const values = found.get(position)!;
    if (name !== null && !(name in values)) values[name] = value;
  }
  const now = new Map<string, Values>();
  for (const noun of eventNouns) {
    const ids = created
      .filter((row) => row.noun === noun && !isGone.has(row.position))
      .map(({ record_id }) => record_id);
    if (ids.length === 0) continue;
    for (const { id, ...record } of await findCurrent(db, customerId, noun, [...new Set(ids)]))
      now.set(id, currentOf(record));
  }
  return (position) => {
    const { noun, record_id } = created.find((row) => row.position === position)!;
    return pick(noun, { ...(isGone.has(position) ? {} : now.get(record_id)), ...found.get(position) });
  };
}

/** Returns the current values of records. Lists lack their number of members, which would take long to count. */
const findCurrent = (db: Database, customerId: string, noun: EventNoun, ids: string[]): Promise<{ id: string }[]> =>
  noun === 'list'
    ? db.lookup(
        (sql) => sql<{ id: string }[]>`
          select l.id, l.name, l.description, l.rules
          from ${liveLists(sql, customerId)}
            and l.id = any(${ids}::uuid[])`,
      )
    : findRecords(db, customerId, noun, ids);

function currentOf(record: object): Values {
  const { company, ...others } = record as Values & { company?: { id: string } | null };
  return shown({ ...others, ...(company === undefined ? {} : { company_id: company?.id ?? null }) });
}

export interface Later {
  position: number;
  name: string | null;
  value: unknown;
  /** True if the change deleted the record. All fields that had a value then count as changed. */
  is_deletion: boolean;
}

// `offset 0` keeps the subquery apart. Without it, `ends_at` is computed again for each later row: 12,000 changes of one
// record took more than 10 s.
/**
 * Returns the values that fields had after a given write, as the next change of each field shows them. Ignores changes
 * after the record was created again.
 */
export const readLater = (
  sql: Queryable,
  customerId: string,
  created: readonly { record_id: string; position: number }[],
): Promise<Later[]> => sql`
  select distinct on (life.position, found.name)
    life.position, found.name, found.value, later.type like '%.deleted' as is_deletion
  from (
    select
      given.record_id,
      given.position,
      (
        select min(again.position)
        from journal again
        where again.customer_id = ${customerId}
          and again.record_id = given.record_id
          and again.position > given.position
          and again.type like '%.created'
      ) as ends_at
    from unnest(
      ${created.map(({ record_id }) => record_id)}::uuid[],
      ${created.map(({ position }) => position)}::bigint[]
    ) as given (record_id, position)
    offset 0
  ) life
  join journal later
    on later.customer_id = ${customerId}
    and later.record_id = life.record_id
    and later.position > life.position
    and (life.ends_at is null or later.position < life.ends_at)
  left join lateral (
    select case key when 'company_id' then 'company' else key end as name, later.before -> key as value
    from json_object_keys(coalesce(later.after, later.before)) key
    where key <> 'custom_fields'
    union all
    select 'custom_fields.' || key, later.before -> 'custom_fields' -> key
    from (
      select json_object_keys(later.before -> 'custom_fields')
      union
      select json_object_keys(later.after -> 'custom_fields')
    ) keys (key)
  ) found on true
  order by life.position, found.name, later.position`;

interface Sums {
  source: EventSource;
  actor: EventActor | null;
  occurred_at: string;
  /** The record that was written first. */
  record_id: string;
  counts: Record<string, Record<string, number>>;
  records: number;
  /** By kind of record: number of those that were merged into another. */
  merged: Partial<Record<EventNoun, number>>;
}

/** `undos`: the undos of the change, and those of them, the latest first. */
export type ToldChange = ChangeSummary & Sums & { undos: TakenBack[] };

/** Returns how many records changes have written, by the ids of the changes. */
export async function sumChanges(
  db: Database,
  customerId: string,
  nouns: readonly EventNoun[],
  ids: readonly string[],
): Promise<ReadonlyMap<string, Sums>> {
  const rows = await db.search(
    (sql) => sql<
      (Omit<Sums, 'counts' | 'merged'> & { change_id: string; noun: EventNoun; verb: RecordVerb; merged: number })[]
    >`
      select
        change_id,
        split_part(type, '.', 1) as noun,
        split_part(type, '.', 2) as verb,
        min(source) as source,
        (array_agg(actor order by position))[1] as actor,
        min(occurred_at) as occurred_at,
        min(record_id::text) as record_id,
        count(distinct record_id) as records,
        count(*) filter (where data ->> 'merged_into' is not null) as merged
      from journal
      where customer_id = ${customerId}
        and change_id = any(${ids as string[]}::uuid[])
        and type = any(${typesOf(nouns)}::text[])
      group by grouping sets ((change_id, type), (change_id))
      order by noun nulls first`,
  );
  const sums = new Map<string, Sums>();
  for (const { change_id, noun, verb, merged, ...all } of rows) {
    const sum = sums.get(change_id);
    if (!sum) {
      sums.set(change_id, { ...all, counts: {}, merged: {} });
      continue;
    }
    (sum.counts[noun] ??= { created: 0, updated: 0, deleted: 0 })[verb] = all.records;
    if (merged > 0) sum.merged[noun] = merged;
  }
  return sums;
}

export async function findChange(
  db: Database,
  customerId: string,
  nouns: readonly EventNoun[],
  id: string,
): Promise<ToldChange | undefined> {
  const sums = (await sumChanges(db, customerId, nouns, [id])).get(id);
  if (!sums) return undefined;
  const [{ undo_of, refusal }, undos] = await db.lookup((sql) =>
    Promise.all([findUndoState(sql, customerId, id), findTakenBack(sql, customerId, [id])]),
  );
  return {
    id,
    ...sums,
    ...(undo_of !== undefined && { undo_of }),
    undos,
    undone_by: undos.flatMap((one) => (one.undo_of === id ? [one.id] : [])).toReversed(),
    undoable: refusal === undefined,
  };
}
