import type { Sql } from '../../database/db.ts';
import { validationFailed } from '../../errors.ts';
import { liveCompanies } from '../../filters/live.ts';
import { customFieldsLimits } from '../../schemas/base/wire.ts';

type CustomFields = Record<string, string | number | boolean>;

/**
 * Merges a patch into the custom fields of a record, key by key. A null removes the key.
 * @throws DomainError `validation_failed` when the result exceeds the limits of custom fields
 */
export function mergeCustomFields(
  current: CustomFields,
  patch: Record<string, string | number | boolean | null>,
): CustomFields {
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
const mostRecords = 50_000;
const mostFields = 500;

/** Returns the custom fields of a customer's newest records, with what all values of each are. Else it is a text. */
export function findCustomFields(
  sql: Sql,
  customerId: string,
  table: 'contacts' | 'companies',
): Promise<{ key: string; type: 'text' | 'number' | 'boolean' }[]> {
  const source =
    table === 'companies'
      ? liveCompanies(sql, customerId, 'r')
      : sql`contacts r where r.customer_id = ${customerId}::uuid`;
  return sql`
    select
      key,
      case
        when count(distinct jsonb_typeof(value)) > 1 then 'text'
        else replace(min(jsonb_typeof(value)), 'string', 'text')
      end as type
    from (select r.custom_fields from ${source} order by r.id desc limit ${mostRecords}) newest
    cross join lateral jsonb_each(custom_fields)
    group by key
    order by key collate "C"
    limit ${mostFields}`;
}
