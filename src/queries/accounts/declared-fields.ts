import { isDeepStrictEqual } from 'node:util';
import type { Transaction } from '../../database/db.ts';
import { conflict, notFound, validationFailed } from '../../errors.ts';
import type { Actor } from '../../schemas/audit.ts';
import {
  maxDeclared,
  type Declaration,
  type DeclaredField,
  type DeclaredObject,
} from '../../schemas/base/declared-fields.ts';
import { listDeclared } from '../records/custom-fields.ts';
import { recordEvent } from './audit.ts';

interface FieldName {
  object: DeclaredObject;
  key: string;
}

/**
 * Declares what a custom field is from now on. Records nothing if it is declared so already.
 * @throws DomainError `validation_failed` if `choices` do not fit the type; `conflict` if too many fields are declared
 */
export async function declareField(
  sql: Transaction,
  customerId: string,
  { object, key }: FieldName,
  { label = key, type, choices = [] }: Declaration,
  by: Actor,
): Promise<DeclaredField> {
  const field = { key, label: label.trim(), type, choices };
  if ((type === 'choice') !== choices.length > 0) {
    const message = type === 'choice' ? 'are needed for the type "choice"' : 'are only for the type "choice"';
    throw validationFailed([{ path: '/choices', message }]);
  }
  // Declarations of one customer wait in turn, so that they do not exceed the maximum.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`fields:${customerId}`}, 0))`;
  const all = await listDeclared(sql, customerId, object);
  const before = all.find((one) => one.key === key);
  if (before && isDeepStrictEqual({ ...before }, field)) return field;
  if (!before && all.length >= maxDeclared)
    throw conflict(`At most ${maxDeclared} fields of ${object} can be declared`);
  await sql`
    insert into declared_fields (customer_id, object, key, label, type, choices)
    values (${customerId}, ${object}, ${key}, ${field.label}, ${type}, ${choices}::text[])
    on conflict (customer_id, object, key)
    do update set label = excluded.label, type = excluded.type, choices = excluded.choices`;
  await recordEvent(sql, { event: 'field.declared', customerId, by, details: { object, key, type } });
  return field;
}

/**
 * Removes a declaration. The values stay.
 * @throws DomainError `not_found`
 */
export async function removeDeclaration(
  sql: Transaction,
  customerId: string,
  { object, key }: FieldName,
  by: Actor,
): Promise<void> {
  const removed = await sql`
    delete from declared_fields
    where customer_id = ${customerId}
      and object = ${object}
      and key = ${key}`;
  if (removed.count === 0) throw notFound('declared field');
  await recordEvent(sql, { event: 'field.removed', customerId, by, details: { object, key } });
}
