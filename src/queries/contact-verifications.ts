import type { Transaction } from '../db.ts';
import { addressKey } from '../normalise.ts';
import type { Verification } from '../schemas/verification.ts';
import { CountChanges } from './counters.ts';
import { refreshMembers } from './list-members.ts';
import { holdRules } from './rules.ts';

/** What became of an address, and the contacts that it was verified for. */
export interface ContactVerification {
  address: string;
  status: Verification['status'];
  contactIds: readonly string[];
}

/**
 * Writes what became of addresses to their contacts: to those whose work e-mail the address still is, and that are still
 * there. Their memberships follow.
 */
export async function saveVerifications(
  sql: Transaction,
  customerId: string,
  verifications: readonly ContactVerification[],
): Promise<void> {
  const given = [...new Set(verifications.flatMap(({ contactIds }) => contactIds))];
  if (given.length === 0) return;
  const rules = await holdRules(sql, customerId);
  const addressOf = new Map(
    (await lockAddresses(sql, customerId, given)).map((one) => [one.id, addressKey(one.work_email)]),
  );
  const verified = verifications.flatMap(({ address, status, contactIds }) =>
    contactIds.flatMap((id) => (addressOf.get(id) === addressKey(address) ? { id, status } : [])),
  );
  const ids = verified.map(({ id }) => id);
  await sql`
    update contacts c
    set
      verification_status = v.status,
      last_verified = (select clock_timestamp()),
      crm_synced_at = (select clock_timestamp()),
      updated_at = (select clock_timestamp())
    from unnest(${ids}::uuid[], ${verified.map(({ status }) => status)}::text[]) as v (id, status)
    where c.customer_id = ${customerId}
      and c.id = v.id`;
  await refreshMembers(sql, customerId, rules, ids, new CountChanges());
}

/** Contacts with their work e-mails, locked in the order that everybody keeps. */
const lockAddresses = (
  sql: Transaction,
  customerId: string,
  ids: readonly string[],
): Promise<{ id: string; work_email: string }[]> => sql`
  select id, work_email
  from contacts
  where customer_id = ${customerId}
    and id = any(${ids as string[]}::uuid[])
  order by id
  for no key update`;
