import type { Spender } from '../../credentials/caller.ts';
import type { Config } from '../../process/config.ts';
import type { Transaction } from '../../database/db.ts';
import { queueOf } from '../../database/queues.ts';
import { reserveCredits } from '../../queries/jobs/credits.ts';
import { insertJob, setJobTotal } from '../../queries/jobs/jobs.ts';
import { insertListInputs } from '../../queries/memberships/list-emails.ts';
import { requireReferences } from '../../queries/records/references.ts';
import type { JobStarted, VerifyEmail } from '../../schemas/jobs.ts';
import { emailKey } from '../../text/normalise.ts';
import { enqueueTurn } from '../../queries/records/turns.ts';
import { startJob, toInputs } from '../start-job.ts';

type Costs = Pick<Config, 'VERIFY_COST'>;

const pool = 'verification';

/**
 * A repeated email is verified and charged only once, also if it differs in case or in white space at the ends.
 * @throws DomainError `not_found` with one fault for each contact that does not belong to the customer
 * @throws TooExpensive
 */
export async function startEmailVerification(
  sql: Transaction,
  spender: Spender,
  { VERIFY_COST: cost }: Costs,
  { emails, sync_crm = false }: VerifyEmail,
): Promise<JobStarted> {
  const contacts = emails.flatMap(({ contact_id: id }, i) =>
    id === undefined ? [] : [{ noun: 'contact' as const, id, path: `/emails/${i}/contact_id` }],
  );
  await requireReferences(sql, spender.customerId, contacts);
  const { inputs, distinct } = toInputs(
    emails,
    ({ email }) => emailKey(email),
    ({ email, contact_id: id }) => ({ item: email, contact_ids: id === undefined ? [] : [id] }),
  );
  const given = { type: 'verify_email', sync_crm, request: {}, pool, total: inputs.length, cost } as const;
  return startJob(sql, spender, { ...given, reserved: distinct * cost, inputs });
}

/**
 * Verifies the work emails of all contacts in a list, and stores the outcomes with them.
 * @throws DomainError `not_found`; `conflict` if the list has too many contacts
 * @throws TooExpensive
 */
export async function startListVerification(
  sql: Transaction,
  { customerId, apiKeyId }: Spender,
  { VERIFY_COST: cost }: Costs,
  listId: string,
): Promise<JobStarted> {
  const request = { list_id: listId };
  const given = { type: 'verify_list', sync_crm: true, request, pool, total: 0, cost, reserved: 0 } as const;
  const job = await insertJob(sql, customerId, { ...given, api_key_id: apiKeyId });
  const total = await insertListInputs(sql, customerId, job.id, listId);
  await setJobTotal(sql, customerId, job.id, { total, reserved: total * cost });
  await enqueueTurn(sql, queueOf(given.type), customerId);
  await reserveCredits(sql, customerId, job.id, { pool, amount: total * cost, apiKeyId });
  return job;
}
