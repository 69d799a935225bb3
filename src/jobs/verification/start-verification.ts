import type { Spender } from '../../credentials/caller.ts';
import type { Config } from '../../process/config.ts';
import type { Transaction } from '../../database/db.ts';
import { findSpendable } from '../../queries/jobs/credits.ts';
import { countReusable, findReusable, sinceNow } from '../../queries/records/earlier-verifications.ts';
import { insertInputs } from '../../queries/jobs/job-inputs.ts';
import type { NewJob, Reusing } from '../../queries/jobs/jobs.ts';
import { countListAddresses, insertListInputs } from '../../queries/memberships/list-emails.ts';
import { requireReferences } from '../../queries/records/references.ts';
import type { Estimate, JobStarted, VerifyEmail, VerifyList } from '../../schemas/jobs.ts';
import { fold } from '../../text/fold.ts';
import { emailKey } from '../../text/normalise.ts';
import { startUnsizedJob, toInputs, type Sizes } from '../start-job.ts';

type Settings = Pick<Config, 'VERIFY_COST' | 'VERIFY_REUSE_HOURS'>;

const pool = 'verification';

const reuseHours = ({ VERIFY_REUSE_HOURS }: Settings, { fresh = false }: { fresh?: boolean }): number =>
  fresh ? 0 : VERIFY_REUSE_HOURS;

/**
 * A repeated email is verified and charged only once, also if it differs in case or in white space at the ends.
 * @throws DomainError `not_found` with one fault for each contact that does not belong to the customer
 * @throws TooExpensive
 */
export async function startEmailVerification(
  sql: Transaction,
  spender: Spender,
  settings: Settings,
  body: VerifyEmail,
): Promise<JobStarted> {
  const inputs = await readEmails(sql, spender.customerId, body);
  const job = { type: 'verify_email', sync_crm: body.sync_crm ?? false, request: {} } as const;
  const hours = reuseHours(settings, body);
  return start(sql, spender, { ...job, cost: settings.VERIFY_COST, hours }, async (jobId) => {
    await insertInputs(sql, spender.customerId, jobId, inputs);
    return { total: inputs.length, payable: inputs.filter((input) => !input.is_duplicate).length };
  });
}

/**
 * In credits. Does not start a job.
 * @throws DomainError `not_found`, as the start
 */
export async function estimateEmailVerification(
  sql: Transaction,
  spender: Spender,
  settings: Settings,
  body: VerifyEmail,
): Promise<Estimate> {
  const { customerId } = spender;
  const inputs = await readEmails(sql, customerId, body);
  const addresses = inputs.flatMap(({ is_duplicate, address }) => (is_duplicate ? [] : address!));
  const reusable = await findReusable(sql, customerId, addresses, sinceNow(sql, reuseHours(settings, body)));
  const payable = addresses.filter((address) => !reusable.has(address)).length;
  const available = await findSpendable(sql, spender, pool);
  return { matches: addresses.length, cost: payable * settings.VERIFY_COST, available };
}

/** @throws DomainError `not_found` with one fault for each contact that does not belong to the customer */
async function readEmails(sql: Transaction, customerId: string, { emails }: VerifyEmail) {
  const contacts = emails.flatMap(({ contact_id: id }, i) =>
    id === undefined ? [] : [{ noun: 'contact' as const, id, path: `/emails/${i}/contact_id` }],
  );
  await requireReferences(sql, customerId, contacts);
  return toInputs(
    emails,
    ({ email }) => emailKey(email),
    ({ email, contact_id: id }) => ({ item: email, address: fold(email), contact_ids: id === undefined ? [] : [id] }),
  );
}

/**
 * Verifies the work emails of all contacts in a list, and stores the outcomes with them.
 * @throws DomainError `not_found`; `conflict` if the list has too many contacts
 * @throws TooExpensive
 */
export function startListVerification(
  sql: Transaction,
  spender: Spender,
  settings: Settings,
  { listId, ...body }: VerifyList & { listId: string },
): Promise<JobStarted> {
  const job = { type: 'verify_list', sync_crm: true, request: { list_id: listId } } as const;
  const hours = reuseHours(settings, body);
  return start(sql, spender, { ...job, cost: settings.VERIFY_COST, hours }, async (jobId) => {
    const total = await insertListInputs(sql, spender.customerId, jobId, listId);
    return { total, payable: total };
  });
}

/**
 * In credits. Does not start a job.
 * @throws DomainError `not_found`, `conflict`, as the start
 */
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

type Verifying = Pick<NewJob, 'type' | 'sync_crm' | 'request' | 'cost'> & { hours: number };

/**
 * Starts a job, and reserves the price of the addresses without a result to reuse.
 * @param insert inserts the inputs; those that may cost credits are the distinct ones
 */
function start(
  sql: Transaction,
  spender: Spender,
  { hours, ...job }: Verifying,
  insert: (jobId: string) => Promise<Sizes>,
): Promise<JobStarted> {
  const request = { ...job.request, reuse_hours: hours } satisfies Reusing;
  return startUnsizedJob(sql, spender, { ...job, request, pool }, async (jobId) => {
    const { total, payable } = await insert(jobId);
    return { total, payable: payable - (await countReusable(sql, spender.customerId, jobId, hours)) };
  });
}
