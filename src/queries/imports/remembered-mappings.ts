import { createHash } from 'node:crypto';
import type { Queryable, Transaction } from '../../database/db.ts';
import type { ImportObject, Mapping } from '../../schemas/imports.ts';

/** Of one customer. */
const maxRemembered = 100;

/** Returns the hash of a set of headers, without the columns of errors files. */
function hashOf(headers: readonly string[]): Buffer {
  const named = new Set(headers.filter((header) => header !== '' && !header.startsWith('_')));
  return createHash('sha256')
    .update(JSON.stringify([...named].toSorted()))
    .digest();
}

/** What was remembered for a set of headers when an import was previewed. */
export interface SeenMapping {
  /** Hash, hexadecimal. */
  headers: string;
  mapping: Mapping | null;
}

/** Returns the mapping that the customer's last import with these headers has used, or the one that this import's preview saw. */
export async function findRememberedMapping(
  sql: Queryable,
  customerId: string,
  { object, remembered: seen }: { object: ImportObject; remembered: SeenMapping | null },
  headers: readonly string[],
): Promise<Mapping | undefined> {
  if (seen?.headers === hashOf(headers).toString('hex')) return seen.mapping ?? undefined;
  const [found] = await sql<{ mapping: Mapping }[]>`
    select mapping
    from import_mappings
    where customer_id = ${customerId}
      and object = ${object}
      and headers = ${hashOf(headers)}`;
  return found?.mapping;
}

/** Returns the same, and stores it with the import, so that the import uses what its preview shows. */
export async function keepRememberedMapping(
  sql: Transaction,
  customerId: string,
  id: string,
  headers: readonly string[],
): Promise<Mapping | undefined> {
  const [found] = await sql<{ object: ImportObject; remembered: SeenMapping | null }[]>`
    select object, remembered
    from imports
    where customer_id = ${customerId}
      and id = ${id}
    for no key update`;
  if (!found) return undefined;
  const mapping = await findRememberedMapping(sql, customerId, found, headers);
  const seen = { headers: hashOf(headers).toString('hex'), mapping: mapping ?? null };
  if (found.remembered?.headers !== seen.headers)
    await sql`
      update imports
      set remembered = ${sql.json(seen)}
      where customer_id = ${customerId}
        and id = ${id}`;
  return mapping;
}

export async function rememberMapping(
  sql: Transaction,
  customerId: string,
  object: ImportObject,
  { headers, mapping }: { headers: readonly string[]; mapping: Mapping },
): Promise<void> {
  await sql`
    insert into import_mappings (customer_id, object, headers, mapping, used_at)
    values (${customerId}, ${object}, ${hashOf(headers)}, ${sql.json(mapping)}, now())
    on conflict (customer_id, object, headers) do update
    set mapping = excluded.mapping, used_at = excluded.used_at`;
  await forgetOldest(sql, customerId);
}

async function forgetOldest(sql: Transaction, customerId: string): Promise<void> {
  // Skips rows that another transaction is using: to wait for them could be a deadlock.
  const surplus = await sql<{ object: string; headers: Buffer }[]>`
    select object, headers
    from import_mappings
    where customer_id = ${customerId}
    order by used_at desc
    offset ${maxRemembered}
    for update skip locked`;
  for (const { object, headers } of surplus)
    await sql`
      delete from import_mappings
      where customer_id = ${customerId}
        and object = ${object}
        and headers = ${headers}`;
}
