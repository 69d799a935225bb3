import type { Queryable, Sql } from '../../database/db.ts';
import { validationFailed, type Fault } from '../../errors.ts';
import { liveCompanies } from '../../filters/live.ts';
import { faultOfValue, type DeclaredField, type DeclaredObject } from '../../schemas/base/declared-fields.ts';
import { customFieldsLimits } from '../../schemas/base/wire.ts';
import type { ImportObject } from '../../schemas/imports.ts';
import { pointerTo } from '../../text/json-pointer.ts';

type CustomFields = Record<string, string | number | boolean>;
type CustomFieldsPatch = Record<string, string | number | boolean | null>;

/** Declarations by the key of their field. */
export type Declared = ReadonlyMap<string, DeclaredField>;

/** Returns what a customer has declared, by key. */
export const listDeclared = (sql: Queryable, customerId: string, object: ImportObject): Promise<DeclaredField[]> =>
  sql<DeclaredField[]>`
    select key, label, type, choices
    from declared_fields
    where customer_id = ${customerId}
      and object = ${object}
    order by key collate "C"`;

/** Returns the declarations of the custom fields that bodies set. Without any, asks nothing. */
export async function findDeclared(
  sql: Queryable,
  customerId: string,
  object: DeclaredObject,
  bodies: readonly { custom_fields?: CustomFieldsPatch }[],
): Promise<Declared> {
  const keys = new Set(bodies.flatMap(({ custom_fields }) => Object.keys(custom_fields ?? {})));
  if (keys.size === 0) return new Map();
  const rows = await sql<DeclaredField[]>`
    select key, label, type, choices
    from declared_fields
    where customer_id = ${customerId}
      and object = ${object}
      and key = any(${[...keys]}::text[])`;
  return new Map(rows.map((field) => [field.key, field]));
}

/** Returns a fault for each value that is not of its declared type. Null is of each type. */
export const declaredFaults = (declared: Declared, values: CustomFieldsPatch): Fault[] =>
  [...declared.values()].flatMap((field) => {
    const value = Object.hasOwn(values, field.key) ? values[field.key] : null;
    const message = value === null ? undefined : faultOfValue(field, value);
    return message === undefined ? [] : [{ path: pointerTo(['custom_fields', field.key]), message }];
  });

/**
 * Merges a patch into the custom fields of a record, key by key. A null removes the key.
 * @throws DomainError `validation_failed` when a value is not of its declared type, or the result exceeds the limits of
 * custom fields
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

/** Records that are looked at. To look at all of a million would take seconds. */
const maxRecords = 50_000;
const maxFields = 500;

type FoundField = Pick<DeclaredField, 'key' | 'type'>;

/** Returns the custom fields that a customer has declared, then the others that records have: at most 500. */
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

/** Returns the custom fields of a customer's newest records, with what all values of each are. Else it is a text. */
function findCustomFields(sql: Sql, customerId: string, object: DeclaredObject): Promise<FoundField[]> {
  const source =
    object === 'companies'
      ? liveCompanies(sql, customerId, 'r')
      : sql`contacts r where r.customer_id = ${customerId}::uuid`;
  return sql`
    select
      key,
      case
        when count(distinct jsonb_typeof(value)) > 1 then 'text'
        else replace(min(jsonb_typeof(value)), 'string', 'text')
      end as type
    from (select r.custom_fields from ${source} order by r.id desc limit ${maxRecords}) newest
    cross join lateral jsonb_each(custom_fields)
    group by key
    order by key collate "C"
    limit ${maxFields}`;
}
