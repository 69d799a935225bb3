import type postgres from 'postgres';

/** An existing customer, and the number of contacts to create for it. */
export interface Tenant {
  id: string;
  size: number;
}

/** Returns customers of unequal size: the first gets a third of all contacts. */
export const unequal = (ids: string[]): Tenant[] =>
  ids.map((id, i) => ({ id, size: i === 0 ? 30_000 : Math.floor(24_000 / (i + 1)) }));

/**
 * Creates records of every kind for customers. Two thirds of the scores are tied. Counters are kept; list rules are not
 * evaluated.
 */
export async function fillTenants(sql: postgres.Sql, tenants: Tenant[]): Promise<void> {
  await sql`drop table if exists tenants`;
  await sql`create temporary table tenants (id uuid, size integer)`;
  await sql`
    insert into tenants
    select *
    from unnest(${tenants.map(({ id }) => id)}::uuid[], ${tenants.map(({ size }) => size)}::integer[])`;
  await sql.unsafe(large).simple();
}

/** Adds enough customers that the planner does not prefer a full scan of any table. */
export const addBeginners = async (sql: postgres.Sql): Promise<void> => void (await sql.unsafe(beginners).simple());

/** Creates 2,000 customers without further records. */
const beginners = `
  create temporary table beginners as select uuidv7() as id, n from generate_series(1, 2000) n;
  insert into customers (id, business_name) select id, 'Beginner ' || n from beginners;
  insert into subscriptions (customer_id, tier_id) select b.id, t.id from beginners b, subscription_tiers t;
  insert into credit_balances (customer_id, pool) select id, 'subscription' from beginners;
  insert into users (customer_id, email, email_folded, name, role, password_hash)
    select id, 'a' || g || '@' || id, 'a' || g || '@' || id, 'Ada', 'admin', '' from beginners, generate_series(1, 3) g;
  insert into api_keys (customer_id, key_hash, name, start, permissions, duration_days, expires_at, created_by)
    select customer_id, sha256(id::text::bytea), 'key', 'sda_', '{contacts:read}', 7, now() + interval '7 days', id from users;
  insert into sessions (token_hash, customer_id, user_id, expires_at)
    select sha256(id::text::bytea), customer_id, id, now() + interval '1 hour' from users;
  insert into pipelines (customer_id, name) select id, 'Sales' from beginners;
  insert into stages (customer_id, pipeline_id, name, position, probability_percentage)
    select customer_id, id, 'Stage', g, 10 from pipelines, generate_series(11, 16) g;
  insert into lists (customer_id, name, owner_id) select customer_id, 'List', id from users;
  insert into journal_ends (customer_id, position, contacts, companies) select id, 0, 0, 0 from beginners;
  insert into products (customer_id, name, price, currency, unit)
    select id, 'Product', 1, 'USD', 'piece' from beginners, generate_series(1, 3);
  insert into jobs (customer_id, type, sync_crm, pool, total, cost, reserved)
    select id, 'verify_email', false, 'verification', 1, 1, 0 from beginners`;

/**
 * Creates contacts and companies for the customers in the table `tenants`, as many of each as `size`. Two thirds of the
 * scores and half of the update times are tied.
 */
const peopleOfTenants = `
  insert into companies (customer_id, company_name, score, folded)
    select t.id, 'Company ' || g, case g % 3 when 0 then g % 101 else 0 end,
      jsonb_build_object('company_name', 'company ' || g, 'industry', '')
    from tenants t, generate_series(1, t.size / 10) g;
  drop table if exists numbered;
  create temporary table numbered as
    select customer_id, c.id, row_number() over (partition by customer_id order by c.id) as n
    from companies c join tenants t on t.id = c.customer_id;
  insert into contacts (customer_id, first_name, last_name, work_email, company_id, score, updated_at, folded)
    select t.id, 'Ada', 'Name ' || g % 5000, g || '@example.com', co.id, case g % 3 when 0 then g % 101 else 0 end,
      case g % 2 when 0 then '2026-01-01' else clock_timestamp() end,
      jsonb_build_object('first_name', 'ada', 'last_name', 'name ' || g % 5000, 'work_email', g || '@example.com',
        'job_title', 'title ' || g % 9, 'industry', 'industry ' || g % 7, 'location_country', 'country ' || g % 11, 'search', 'ada name ' || g % 5000 || ' ' || g || '@example.com')
    from tenants t
    cross join generate_series(1, t.size) g
    left join numbered co on co.customer_id = t.id and co.n = 1 + g % (t.size / 10);`;

const large = `
  ${peopleOfTenants}
  insert into lists (customer_id, name, owner_id)
    select t.id, 'Large', u.id from tenants t join users u on u.customer_id = t.id;
  insert into list_members (customer_id, list_id, contact_id)
    select customer_id, l.id, c.id
    from tenants t join lists l on l.customer_id = t.id join contacts c using (customer_id)
    where l.name = 'Large' and hashtext(c.id::text) % 3 = 0;
  insert into products (customer_id, name, price, currency, unit)
    select t.id, 'Product ' || g, 1, 'USD', 'piece' from tenants t, generate_series(1, t.size / 100) g;
  insert into opportunities
      (customer_id, name, priority, stage_id, company_id, user_id_assigned, estimated_closing_date, close_date)
    select t.id, 'Deal ' || g, 'NONE', s.id, co.id, u.id, now(), now()
    from tenants t
    cross join generate_series(1, t.size / 10) g
    join users u on u.customer_id = t.id
    join stages s on s.customer_id = t.id and s.position = 1
    join numbered co on co.customer_id = t.id and co.n = g;
  drop table if exists sold;
  create temporary table sold as
    select customer_id, p.id, row_number() over (partition by customer_id order by p.id) as n
    from products p join tenants t on t.id = p.customer_id where name like 'Product _%';
  insert into opportunity_lines (customer_id, opportunity_id, product_id, pipeline_id, position, price, quantity)
    select o.customer_id, o.id, p.id, s.pipeline_id, 1, 1, 1
    from (select *, row_number() over (partition by customer_id order by id) as n from opportunities) o
    join tenants t on t.id = o.customer_id
    join stages s on s.customer_id = o.customer_id and s.id = o.stage_id
    join sold p on p.customer_id = o.customer_id and p.n = 1 + o.n % (t.size / 100);
  insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select o.customer_id, o.id, c.id, 1
    from (select *, row_number() over (partition by customer_id order by id) as n from opportunities) o
    join tenants t on t.id = o.customer_id
    join (select customer_id, id, row_number() over (partition by customer_id order by id) as n from contacts) c
      using (customer_id, n);
  insert into jobs (customer_id, type, status, sync_crm, pool, total, cost, reserved, started_at, finished_at)
    select id, 'unlock_contacts', 'COMPLETED', false, 'subscription', 20, 1, 0, now(), now()
    from tenants, generate_series(1, size / 100);
  insert into job_results (customer_id, job_id, position, item, status, charged)
    select customer_id, j.id, g, j.id::text, 'succeeded', 1
    from jobs j join tenants t on t.id = j.customer_id, generate_series(1, 20) g
    where type = 'unlock_contacts';
  insert into unlocks (customer_id, prospect_id) select id, uuidv7() from tenants, generate_series(1, size / 10);
  insert into credit_entries (customer_id, pool, number, kind, amount, balance_after, reserved_after)
    select t.id, 'subscription', g, 'grant', 1, g, 0 from tenants t, generate_series(1, t.size / 10) g;
  update credit_balances b set available = t.size / 10, entries = t.size / 10
    from tenants t where b.customer_id = t.id and b.pool = 'subscription';
  insert into journal_ends as ends (customer_id, position, contacts, companies)
    select
      id, 0, (select count(*) from contacts where customer_id = t.id),
      (select count(*) from companies where customer_id = t.id)
    from tenants t
    on conflict (customer_id) do update set contacts = excluded.contacts, companies = excluded.companies`;
