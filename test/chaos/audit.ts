import type postgres from 'postgres';
import type { Queryable } from '../../src/database/db.ts';
import { checkCredits } from '../../src/queries/jobs/credit-checks.ts';
import type { PaidJobType } from '../../src/schemas/jobs.ts';

// The audit of all data, in plain SQL. But for the check of credits, which test/commands/jobs.test.ts proves, it shares no code
// with the service, on purpose.

/** The faults that the audit found: rows by question. Empty if there is no fault. */
export interface Findings {
  [question: string]: unknown[];
}

/** The kind of audit questions that apply to each job type. */
const audited: Record<PaidJobType, 'unlock' | 'verification' | 'enrichment'> = {
  unlock_contacts: 'unlock',
  unlock_selected_contacts: 'unlock',
  verify_email: 'verification',
  verify_list: 'verification',
  enrich_contacts: 'enrichment',
};

/** Returns the job types of one kind as a list in SQL. */
const typesOf = (kind: 'unlock' | 'verification' | 'enrichment'): string => {
  const types = Object.entries(audited).filter(([, one]) => one === kind);
  return `(${types.map(([type]) => `'${type}'`).join(', ')})`;
};

/** SQL condition: an enrichment unlocked the row `u` of `unlocks`. */
const isOfEnrichment = `exists (
        select from jobs e
        where e.customer_id = u.customer_id and e.id = u.job_id and e.type in ${typesOf('enrichment')}
      )`;

/** The audit questions. Each query returns the rows with this fault; no rows if all is well. */
const questions: Record<string, string> = {
  'a key has spent more than its cap': `
    select s.api_key_id, s.pool, sum(s.spent) as spent, c.cap
    from key_spending s
    join (
      select id, pool, spend_caps -> pool as cap
      from api_keys
      cross join (values ('subscription'), ('verification')) pools (pool)
    ) c on c.id = s.api_key_id and c.pool = s.pool
    group by s.api_key_id, s.pool, c.cap, case c.cap ->> 'per' when 'day' then s.day end
    having sum(s.spent) > (c.cap ->> 'amount')::bigint`,
  'a job is stuck or not settled': `
    select customer_id, id, type, status, attempt, turn, due_at, failures, error, reserved, charged, refunded
    from jobs
    where finished_at is null or reserved <> charged + refunded or status = 'FAILED'`,
  'an input has no result, or more than one': `
    select i.customer_id, i.job_id, i.position, j.type, j.status
    from job_inputs i
    join jobs j on j.customer_id = i.customer_id and j.id = i.job_id
    where (
      select count(*) from job_results r
      where r.customer_id = i.customer_id and r.job_id = i.job_id and r.position = i.position
    ) <> 1`,
  'a prospect was delivered to a customer twice': `
    select r.customer_id, r.item, count(*), sum(r.charged)
    from job_results r
    join jobs j on j.customer_id = r.customer_id and j.id = r.job_id
    where j.type in ${typesOf('unlock')} and r.status = 'succeeded'
    group by r.customer_id, r.item
    having count(*) > 1`,
  'an email was charged twice in a job': `
    select r.customer_id, r.job_id, lower(btrim(r.item)), count(*)
    from job_results r
    join jobs j on j.customer_id = r.customer_id and j.id = r.job_id
    where j.type in ${typesOf('verification')} and r.charged > 0
    group by r.customer_id, r.job_id, lower(btrim(r.item))
    having count(*) > 1`,
  'the charge of a verification does not match its outcome': `
    select r.customer_id, r.job_id, r.position, r.status, r.reason, r.charged, r.result ->> 'status' as outcome
    from job_results r
    join jobs j on j.customer_id = r.customer_id and j.id = r.job_id
    where j.type in ${typesOf('verification')}
      and r.charged <> case
        when r.status = 'succeeded' and r.result ->> 'status' <> 'unknown' and r.result -> 'reused' is null then j.cost
        else 0
      end`,
  'an address was charged again without need': `
    select a.customer_id, a.verified_address
    from job_results a
    join job_results b on b.customer_id = a.customer_id and b.verified_address = a.verified_address
      and (b.job_id, b.position) <> (a.job_id, a.position)
    join jobs j on j.customer_id = b.customer_id and j.id = b.job_id
    where (j.request ->> 'reuse_hours')::numeric > 0 and b.finished_at > a.finished_at`,
  'a contact does not show the outcome of the last verification of its email': `
    select customer_id, contact_id, verification_status, outcomes
    from (
      select c.customer_id, c.id as contact_id, c.verification_status, array_agg(v.outcome) as outcomes
      from contacts c
      join lateral (
        select r.result ->> 'status' as outcome, rank() over (order by r.finished_at desc) as age
        from job_inputs i
        join jobs j on j.customer_id = i.customer_id and j.id = i.job_id
        join job_results r on r.customer_id = i.customer_id and r.job_id = i.job_id
          and lower(btrim(r.item)) = lower(btrim(i.item)) and r.status = 'succeeded'
        where i.customer_id = c.customer_id
          and c.id = any(i.contact_ids)
          and lower(btrim(i.item)) = lower(c.work_email)
          and j.sync_crm
          and j.type in ${typesOf('verification')}
      ) v on v.age = 1
      group by c.customer_id, c.id
    ) verified
    where verification_status <> all(outcomes)`,
  'unlocks and delivered prospects differ': `
    select customer_id, item
    from (
      select customer_id, prospect_id::text as item from unlocks u where not ${isOfEnrichment}
      except all
      select r.customer_id, r.item
      from job_results r
      join jobs j on j.customer_id = r.customer_id and j.id = r.job_id
      where j.type in ${typesOf('unlock')} and r.status = 'succeeded'
    ) undelivered
    union all
    select customer_id, item
    from (
      select r.customer_id, r.item
      from job_results r
      join jobs j on j.customer_id = r.customer_id and j.id = r.job_id
      where j.type in ${typesOf('unlock')} and r.status = 'succeeded'
      except all
      select customer_id, prospect_id::text from unlocks u where not ${isOfEnrichment}
    ) locked`,
  'an enrichment unlocked somebody and filled nothing': `
    select u.customer_id, u.prospect_id
    from unlocks u
    where ${isOfEnrichment}
      and not exists (
        select from job_results r
        where r.customer_id = u.customer_id and r.job_id = u.job_id and r.status = 'succeeded'
          and r.result ->> 'prospect_id' = u.prospect_id::text
          and jsonb_array_length(r.result -> 'changed') > 0
      )`,
  'an enrichment filled a contact from somebody who is not unlocked': `
    select r.customer_id, r.job_id, r.item
    from job_results r
    join jobs j on j.customer_id = r.customer_id and j.id = r.job_id
    where j.type in ${typesOf('enrichment')} and r.status = 'succeeded'
      and not exists (
        select from unlocks u
        where u.customer_id = r.customer_id and u.prospect_id::text = r.result ->> 'prospect_id'
      )`,
  'a prospect became two contacts': `
    select customer_id, prospect_id, count(*)
    from contacts
    where prospect_id is not null
      and not exists (
        select from job_results r
        join jobs j on j.customer_id = r.customer_id and j.id = r.job_id
        where r.customer_id = contacts.customer_id and r.item = contacts.id::text and j.type in ${typesOf('enrichment')}
      )
    group by customer_id, prospect_id
    having count(*) > 1`,
  'a prospect that should have become a contact did not': `
    select r.customer_id, r.item
    from job_results r
    join jobs j on j.customer_id = r.customer_id and j.id = r.job_id and j.sync_crm
    where j.type in ${typesOf('unlock')} and r.status = 'succeeded'
      and r.result ->> 'work_email' <> ''
      and not exists (
        select from contacts c
        where c.customer_id = r.customer_id
          and (c.prospect_id = r.item::uuid or lower(c.work_email) = lower(r.result ->> 'work_email'))
      )`,
};

/** Checks the credits of all customers, and runs all audit questions. Returns up to 5 rows for each fault found. */
export async function audit(owner: postgres.Sql): Promise<Findings> {
  const findings: Findings = {};
  for (const { id } of await owner<{ id: string }[]>`select id from customers`) {
    const faults = await checkCredits(owner as unknown as Queryable, id);
    if (faults.length > 0) findings[`credits of ${id}`] = faults.slice(0, 5);
  }
  // Without statistics of the new rows, a join of results and unlocks can take a minute.
  await owner`analyze`;
  for (const [question, text] of Object.entries(questions)) {
    const rows = await owner.unsafe(text);
    if (rows.length > 0) findings[question] = rows.slice(0, 5);
  }
  return findings;
}
