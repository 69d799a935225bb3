import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { validationFailed, type Fault } from '../../errors.ts';
import { liveRecords, constant } from '../../filters/sql.ts';
import { faultOfValue, type DeclaredField, type DeclaredObject, customFieldsLimits } from '../../schemas/wire.ts';
import type { ImportObject } from '../../schemas/imports.ts';
import { pointerTo } from '../../text/json.ts';
import { withoutTerms } from '../../filters/narrowing.ts';
import { companySource, contactSource, type Source, foldedColumns, type RecordFields } from '../../filters/columns.ts';
import { searchColumnsOf, termColumns } from '../../filters/to-sql.ts';

type CustomFields = Record<string, string | number | boolean>;
type CustomFieldsPatch = Record<string, string | number | boolean | null>;

export type Declared = ReadonlyMap<string, DeclaredField>;

export const listDeclared = (
  sql: Queryable,
  customerId: string,
  object: ImportObject,
  keys?: ReadonlySet<string>,
): Promise<DeclaredField[]> => sql`
  select key, label, type, choices
  from declared_fields
  where customer_id = ${customerId}
    and object = ${object}
    ${keys ? sql`and key = any(${[...keys]}::text[])` : sql``}
  order by key collate "C"`;

export async function findDeclared(
  sql: Queryable,
  customerId: string,
  object: DeclaredObject,
  bodies: readonly { custom_fields?: CustomFieldsPatch }[],
): Promise<Declared> {
  const keys = new Set(bodies.flatMap(({ custom_fields }) => Object.keys(custom_fields ?? {})));
  if (keys.size === 0) return new Map();
  const rows = await listDeclared(sql, customerId, object, keys);
  return new Map(rows.map((field) => [field.key, field]));
}

export const declaredFaults = (declared: Declared, values: CustomFieldsPatch): Fault[] =>
  [...declared.values()].flatMap((field) => {
    const value = Object.hasOwn(values, field.key) ? values[field.key] : null;
    const message = value === null ? undefined : faultOfValue(field, value);
    return message === undefined ? [] : [{ path: pointerTo(['custom_fields', field.key]), message }];
  });

/**
 * Merges a patch into the custom fields of a record, key by key. Null removes the key.
 * @throws DomainError `validation_failed` if a value is not of its declared type, or the result exceeds the limits of
 *   custom fields
 */
export function mergeCustomFields(current: CustomFields, patch: CustomFieldsPatch, declared: Declared): CustomFields {
  const faults = declaredFaults(declared, patch);
  if (faults.length > 0) throw validationFailed(faults);
  const merged = Object.entries({ ...current, ...patch }).filter(
    (entry): entry is [string, string | number | boolean] => entry[1] !== null,
  );
  const fields = Object.fromEntries(merged);
  const { keys, bytes } = customFieldsLimits;
  if (merged.length > keys || Buffer.byteLength(JSON.stringify(fields)) > bytes)
    throw validationFailed([
      { path: '/custom_fields', message: `must not have more than ${keys} keys or ${bytes} bytes of JSON` },
    ]);
  return fields;
}

/** Maximum number of records that are read to find custom fields. Reading a million would take seconds. */
const maxRecords = 50_000;
const maxFields = 500;

type FoundField = Pick<DeclaredField, 'key' | 'type'>;

/** Returns at most 500 custom fields: those that a customer has declared, then others that records have. */
export async function listCustomFields(
  sql: Sql,
  customerId: string,
  object: DeclaredObject,
): Promise<(DeclaredField | FoundField)[]> {
  const [declared, found] = await Promise.all([
    listDeclared(sql, customerId, object),
    findCustomFields(sql, customerId, object),
  ]);
  const known = new Set(declared.map(({ key }) => key));
  return [...declared, ...found.filter(({ key }) => !known.has(key))].slice(0, maxFields);
}

/** Returns the custom fields of a customer's newest records. A field with values of several types has the type text. */
const findCustomFields = (sql: Sql, customerId: string, object: DeclaredObject): Promise<FoundField[]> => sql`
  select
    key,
    case
      when count(distinct jsonb_typeof(value)) > 1 then 'text'
      else replace(min(jsonb_typeof(value)), 'string', 'text')
    end as type
  from (select r.custom_fields from ${liveRecords(sql, object, customerId)} order by r.id desc limit ${maxRecords}) newest
  cross join lateral jsonb_each(custom_fields)
  group by key
  order by key collate "C"
  limit ${maxFields}`;

/**
 * Kinds of records that have the columns `folded` (texts in lower case, no accents) and `terms` (numbers with which a
 * filter finds records fast).
 */
export const indexedSources: readonly Source[] = [contactSource, companySource];

/**
 * Computes the columns `folded` and `terms` of the next batch of records that an older version of this program wrote.
 * Locks these records. Can be repeated.
 * @param after id of the last record of the previous batch
 * @returns the id of the last record of this batch, or undefined if no such records are left
 */
export async function addTerms(
  sql: Transaction,
  customerId: string,
  source: Source,
  { after, size }: { after: string; size: number },
): Promise<string | undefined> {
  const [table, alias] = [constant(sql, source.table), constant(sql, source.alias)];
  const records = await sql<{ id: string; record: RecordFields }[]>`
    select ${alias}.id, jsonb_build_object(${constant(sql, recordPairs(source))}) as record
    from ${table} ${alias}
    where ${alias}.customer_id = ${customerId}
      and ${alias}.id > ${after}
      and ${constant(sql, withoutTerms(source))}
    order by ${alias}.id
    limit ${size}
    for no key update`;
  if (records.length === 0) return undefined;
  const rows = records.map(({ id, record }) => ({ id, ...searchColumnsOf(source, customerId, record) }));
  const ids = rows.map(({ id }) => id);
  await sql`
    update ${table} ${alias}
    set
      folded = given.folded,
      terms = given.terms
    from jsonb_to_recordset(${sql.json(rows)}) as given (id uuid, folded jsonb, terms integer[])
    where ${alias}.customer_id = ${customerId}
      and ${alias}.id = any(${ids}::uuid[])
      and ${alias}.id = given.id`;
  return ids.at(-1);
}

const recordPairs = (source: Source): string =>
  [...new Set([...foldedColumns(source), ...termColumns(source)])]
    .map((column) => `'${column}', ${source.alias}.${column}`)
    .join(', ');

export async function findCustomersWithoutTerms(
  sql: Sql,
  source: Source,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const found: string[] = [];
  while (found.length < limit) {
    const next = await findCustomerWithoutTerms(sql, source, found.at(-1) ?? after);
    if (next === undefined) break;
    found.push(next);
  }
  return found;
}

async function findCustomerWithoutTerms(sql: Sql, source: Source, after: string): Promise<string | undefined> {
  const [row] = await sql<{ customer_id: string }[]>`
    select customer_id
    from ${constant(sql, `${source.table} ${source.alias}`)}
    where customer_id > ${after}
      and ${constant(sql, withoutTerms(source))}
    order by customer_id
    limit 1`;
  return row?.customer_id;
}
