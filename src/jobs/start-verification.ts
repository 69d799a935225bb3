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
import { startJob, startUnsizedJob, toInputs } from './start-job.ts';

type Settings = Pick<Config, 'VERIFY_COST' | 'VERIFY_REUSE_HOURS'>;

const pool = 'verification';

const reuseHours = ({ VERIFY_REUSE_HOURS }: Settings, { fresh = false }: { fresh?: boolean }): number =>
  fresh ? 0 : VERIFY_REUSE_HOURS;

/**
 * Starts a job that verifies emails. A repeated email (in any case) is verified and charged once.
 * @throws DomainError `not_found` with one fault for each unknown contact
 * @throws TooExpensive
 */
export async function startEmailVerification(
  sql: Transaction,
  spender: Spender,
  settings: Settings,
  body: VerifyEmail,
): Promise<JobStarted> {
  const { inputs, reserved } = await readEmails(sql, spender.customerId, settings, body);
  const request = { reuse_hours: reuseHours(settings, body) } satisfies Reusing;
  const job = { type: 'verify_email', sync_crm: body.sync_crm ?? false, request, pool } as const;
  return startJob(sql, spender, { ...job, cost: settings.VERIFY_COST, total: inputs.length, reserved, inputs });
}

export async function estimateEmailVerification(
  sql: Transaction,
  spender: Spender,
  settings: Settings,
  body: VerifyEmail,
): Promise<Estimate> {
  const { matches, reserved: cost } = await readEmails(sql, spender.customerId, settings, body);
  return { matches, cost, available: await findSpendable(sql, spender, pool) };
}

/**
 * Prepares the emails of a request as job inputs.
 * @returns `matches`: the number of different addresses. `reserved`: the price of addresses without a reusable result
 * @throws DomainError `not_found` with one fault for each unknown contact
 */
async function readEmails(sql: Transaction, customerId: string, settings: Settings, body: VerifyEmail) {
  const { emails } = body;
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
  const since = sinceNow(sql, reuseHours(settings, body));
  const reusable = await findReusable(sql, customerId, addresses, since);
  const payable = addresses.filter((address) => !reusable.has(address)).length;
  return { inputs, matches: addresses.length, reserved: payable * settings.VERIFY_COST };
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
