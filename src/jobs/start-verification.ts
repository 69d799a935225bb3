import type { Spender } from '../access/credentials.ts';
import type { Config } from '../process/config.ts';
import type { Transaction } from '../database/db.ts';
import { findSpendable } from '../queries/jobs/credits.ts';
import { countReusable, findReusable, sinceNow } from '../queries/crm/enrichment.ts';
import type { Reusing } from '../queries/jobs/jobs.ts';
import { countListAddresses, insertListInputs } from '../queries/crm/list-emails.ts';
import { requireReferences } from '../queries/records/references.ts';
import type { Estimate, JobStarted, VerifyEmail, VerifyList } from '../schemas/jobs.ts';
import { fold, emailKey } from '../text/fold.ts';
import { startUnsizedJob, toInputs, type Plan } from './start-job.ts';

type Settings = Pick<Config, 'VERIFY_COST' | 'VERIFY_REUSE_HOURS'>;

const pool = 'verification';

const reuseHours = ({ VERIFY_REUSE_HOURS }: Settings, { fresh = false }: { fresh?: boolean }): number =>
  fresh ? 0 : VERIFY_REUSE_HOURS;

/**
 * Plans a job that verifies emails. A repeated email (in any case) is verified and charged once. Emails with a reusable
 * result are free.
 * @throws DomainError `not_found` with one fault for each unknown contact
 */
export async function planEmailVerification(
  sql: Transaction,
  { customerId }: Spender,
  settings: Settings,
  body: VerifyEmail,
): Promise<Plan> {
  const { emails, sync_crm = false } = body;
  const contacts = emails.flatMap(({ contact_id: id }, i) =>
    id === undefined ? [] : [{ noun: 'contact' as const, id, path: `/emails/${i}/contact_id` }],
  );
  await requireReferences(sql, customerId, contacts);
  const inputs = toInputs(
    emails,
    ({ email, contact_id: id }) => ({ item: email, address: fold(email), contact_ids: id === undefined ? [] : [id] }),
    emailKey,
  );
  const addresses = inputs.flatMap(({ is_duplicate, address }) => (is_duplicate ? [] : address!));
  const reuse_hours = reuseHours(settings, body);
  const reusable = await findReusable(sql, customerId, addresses, sinceNow(sql, reuse_hours));
  const cost = settings.VERIFY_COST;
  const reserved = addresses.filter((address) => !reusable.has(address)).length * cost;
  const request = { reuse_hours } satisfies Reusing;
  const [total, matches] = [inputs.length, addresses.length];
  return { type: 'verify_email', sync_crm, request, pool, cost, total, reserved, inputs, matches, records: matches };
}

/**
 * Starts a job that verifies the work emails of all contacts in a list, and stores the outcomes with the contacts.
 * @throws DomainError `not_found`; `conflict` if the list has too many contacts
 * @throws TooExpensive
 */
export function startListVerification(
  sql: Transaction,
  spender: Spender,
  settings: Settings,
  { listId, ...body }: VerifyList & { listId: string },
): Promise<JobStarted> {
  const cost = settings.VERIFY_COST;
  const hours = reuseHours(settings, body);
  const request = { list_id: listId, reuse_hours: hours } satisfies Reusing & { list_id: string };
  return startUnsizedJob(sql, spender, { type: 'verify_list', sync_crm: true, request, pool, cost }, async (jobId) => {
    const total = await insertListInputs(sql, spender.customerId, jobId, listId);
    return { total, reserved: (total - (await countReusable(sql, spender.customerId, jobId, hours))) * cost };
  });
}

export async function estimateListVerification(
  sql: Transaction,
  spender: Spender,
  settings: Settings,
  { listId, ...body }: VerifyList & { listId: string },
): Promise<Estimate> {
  const hours = reuseHours(settings, body);
  const { addresses, reusable } = await countListAddresses(sql, spender.customerId, listId, hours);
  const available = await findSpendable(sql, spender, pool);
  return { matches: addresses, cost: (addresses - reusable) * settings.VERIFY_COST, available };
}
