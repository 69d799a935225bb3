import type { Queryable, Sql } from '../../database/db.ts';

export interface CreditFault {
  customer_id: string;
  of: string;
  fault: string;
}

export async function listCustomersAfter(sql: Sql, after: string, limit: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id
    from customers
    where id > ${after}
    order by id
    limit ${limit}`;
  return rows.map(({ id }) => id);
}

/**
 * Returns contradictions in a customer's credits, read at one instant. Examples are gaps in the numbers of ledger
 * entries, and balances that differ from the sum of their entries.
 */
export const checkCredits = (sql: Queryable, customerId: string): Promise<CreditFault[]> => sql`
  with entries as (
    select
      e.pool,
      e.number,
      e.kind,
      e.amount,
      e.job_id,
      e.balance_after,
      e.reserved_after,
      case e.kind when 'reserve' then -e.amount when 'charge' then 0 else e.amount end as to_balance,
      case when e.kind = 'reserve' then e.amount when e.kind in ('charge', 'release') then -e.amount else 0 end as to_reserved
    from credit_entries e
    where e.customer_id = ${customerId}
  ),
  followed as (
    select
      e.*,
      row_number() over before as place,
      sum(e.to_balance) over before as balance_due,
      sum(e.to_reserved) over before as reserved_due
    from entries e
    window before as (partition by e.pool order by e.number)
  ),
  pools as (
    select
      p.pool,
      b.available,
      b.reserved,
      b.entries as numbered,
      coalesce((select sum(e.to_balance) from entries e where e.pool = p.pool), 0) as balance_due,
      coalesce((select sum(e.to_reserved) from entries e where e.pool = p.pool), 0) as reserved_due,
      coalesce((select max(e.number) from entries e where e.pool = p.pool), 0) as last
    from (values ('subscription'), ('verification')) p (pool)
    left join credit_balances b on b.customer_id = ${customerId} and b.pool = p.pool
  ),
  spent as (
    select
      e.job_id,
      coalesce(sum(e.amount) filter (where e.kind = 'reserve'), 0) as reserved,
      coalesce(sum(e.amount) filter (where e.kind = 'charge'), 0) as charged,
      coalesce(sum(e.amount) filter (where e.kind = 'release'), 0) as released,
      count(distinct e.pool) as pools,
      min(e.pool) as pool
    from entries e
    where e.job_id is not null
    group by e.job_id
  ),
  by_keys as (
    select
      j.api_key_id,
      j.pool,
      (j.created_at at time zone 'UTC')::date as day,
      sum(coalesce(s.reserved, 0) - coalesce(s.released, 0)) as spent
    from jobs j
    left join spent s on s.job_id = j.id
    where j.customer_id = ${customerId}
      and j.api_key_id is not null
    group by 1, 2, 3
  ),
  delivered as (
    select
      r.job_id,
      sum(r.charged) as charged,
      count(*) filter (where r.status = 'succeeded') as succeeded,
      count(*) filter (where r.status = 'failed') as failed,
      count(*) filter (where r.status = 'skipped') as skipped
    from job_results r
    where r.customer_id = ${customerId}
    group by r.job_id
  ),
  faults (of, fault) as (
    select pool || ' ' || number, format('expected entry number %s, found %s', place, number)
    from followed
    where number <> place
    union all
    select pool || ' ' || number, format('available/reserved after the entry are %s/%s, expected %s/%s', balance_after, reserved_after, balance_due, reserved_due)
    from followed
    where (balance_after, reserved_after) is distinct from (balance_due, reserved_due)
    union all
    select pool, format('available/reserved are %s/%s, the sums of the ledger are %s/%s', available, reserved, balance_due, reserved_due)
    from pools
    where (available, reserved) is distinct from (balance_due, reserved_due)
    union all
    select pool, format('the balance counts %s entries, the last entry has number %s', numbered, last)
    from pools
    where numbered is distinct from last
    union all
    select 'job ' || j.id, format('the job has reserved %s, charged %s, refunded %s; the ledger has %s, %s, %s', j.reserved, j.charged,
      j.refunded, coalesce(s.reserved, 0), coalesce(s.charged, 0), coalesce(s.released, 0))
    from jobs j
    left join spent s on s.job_id = j.id
    where j.customer_id = ${customerId}
      and (
        (j.reserved, j.charged, j.refunded) is distinct from (coalesce(s.reserved, 0), coalesce(s.charged, 0), coalesce(s.released, 0))
        or s.pools > 1
        or s.pool <> j.pool
      )
    union all
    select 'key ' || coalesce(k.api_key_id, b.api_key_id), format('the key has spent %s %s credits on %s, the ledger has %s',
      coalesce(k.spent, 0), coalesce(k.pool, b.pool), coalesce(k.day, b.day), coalesce(b.spent, 0))
    from (
      select api_key_id, pool, day, spent
      from key_spending
      where customer_id = ${customerId}
    ) k
    full join by_keys b on b.api_key_id = k.api_key_id and b.pool = k.pool and b.day = k.day
    where coalesce(k.spent, 0) <> coalesce(b.spent, 0)
    union all
    select 'job ' || j.id, format('the job has ended with %s of %s reserved credits charged or refunded', j.charged + j.refunded, j.reserved)
    from jobs j
    where j.customer_id = ${customerId}
      and j.status in ('COMPLETED', 'FAILED', 'CANCELLED')
      and j.charged + j.refunded <> j.reserved
    union all
    select 'job ' || j.id, format('the job has charged %s for %s succeeded + %s failed + %s skipped items; its results have %s for %s + %s + %s', j.charged, j.succeeded,
      j.failed, j.skipped, coalesce(d.charged, 0), coalesce(d.succeeded, 0), coalesce(d.failed, 0), coalesce(d.skipped, 0))
    from jobs j
    left join delivered d on d.job_id = j.id
    where j.customer_id = ${customerId}
      -- After that time the results may be partly removed.
      and (j.finished_at is null or j.finished_at > (select clock_timestamp()) - interval '30 days')
      and (j.charged, j.succeeded, j.failed, j.skipped) is distinct from
        (coalesce(d.charged, 0), coalesce(d.succeeded, 0), coalesce(d.failed, 0), coalesce(d.skipped, 0))
  )
  select ${customerId}::uuid as customer_id, of, fault
  from faults
  order by of, fault`;
