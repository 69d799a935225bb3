import type { Locked, Transaction } from '../../database/db.ts';
import type { Verification } from '../../schemas/verification.ts';
import { emailKey } from '../../text/normalise.ts';
import { lockBulk } from '../records/bulk-lock.ts';
import { lockedInOrder } from '../records/contact-locks.ts';
import { findSuccessors } from '../records/merged-records.ts';
import { withLastWrites } from '../records/last-writes.ts';

export interface ContactVerification {
  address: string;
  status: Verification['status'];
  contactId: string;
}

/**
 * Saves the results of email verifications in contacts. Skips contacts that were deleted or whose work email has changed.
 */
export async function saveVerifications(
  sql: Transaction,
  customerId: string,
  verifications: readonly ContactVerification[],
): Promise<void> {
  if (verifications.length === 0) return;
  await lockBulk(sql, customerId);
  // A contact that was merged meanwhile has the address of one of the merged contacts, or none of them.
  const named = verifications.map(({ contactId }) => contactId);
  const successors = await findSuccessors(sql, customerId, named);
  const current = verifications.map((one) => ({ ...one, contactId: successors.get(one.contactId) ?? one.contactId }));
  const given = [...new Set(current.map(({ contactId }) => contactId))];
  const addressed = await lockAddresses(sql, customerId, given);
  const stored = new Map<string, Addressed>(addressed.map((contact) => [contact.id, contact]));
  const statuses = new Map(
    current.flatMap(({ address, status, contactId }) => {
      const contact = stored.get(contactId);
      return contact && emailKey(contact.work_email) === emailKey(address) ? [[contact.id, status] as const] : [];
    }),
  );
  const ids = [...statuses.keys()];
  // One time for all columns: in a distributed database each subquery reads the clock at another moment.
  const written = await sql<(Verified & { id: string })[]>`
    with clock as materialized (
      select clock_timestamp() as now
    )
    update contacts c
    set
      verification_status = v.status,
      last_verified = clock.now,
      crm_synced_at = clock.now,
      updated_at = clock.now
    from unnest(${ids}::uuid[], ${[...statuses.values()]}::text[]) as v (id, status), clock
    where c.customer_id = ${customerId}
      and c.id = v.id
    returning c.id, c.verification_status, c.last_verified, c.crm_synced_at`;
  await withLastWrites(sql, customerId, async (last) => {
    for (const { id, ...verified } of written) {
      const contact = stored.get(id)!;
      last.updated('contact', { id, external_id: contact.external_id }, contact, verified);
    }
  });
}

interface Verified {
  verification_status: string;
  last_verified: string | null;
  crm_synced_at: string | null;
}

type Addressed = Locked<Verified & { external_id: string | null; work_email: string }>;

const lockAddresses = (sql: Transaction, customerId: string, ids: readonly string[]): Promise<Addressed[]> => sql`
  select id, external_id, work_email, verification_status, last_verified, crm_synced_at
  from contacts
  where customer_id = ${customerId}
    and id = any(${ids as string[]}::uuid[])
  ${lockedInOrder(sql)}`;
