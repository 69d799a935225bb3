import { isDeepStrictEqual } from 'node:util';
import type { Queryable, Transaction, Sql } from '../../database/db.ts';
import { lowestId } from '../../database/connection.ts';
import { type RefusalCause, notFound, conflict, validationFailed } from '../../errors.ts';
import { commandLine } from '../../schemas/accounts.ts';
import type { AuditEvent, NewAuditEvent, CustomerSummary, Actor } from '../../schemas/accounts.ts';
import { fold } from '../../text/fold.ts';
import { insertBalances } from '../jobs/credits.ts';
import { createPipeline, salesStages } from '../crm/pipelines.ts';
import { maxDeclared, type Declaration, type DeclaredField, type DeclaredObject } from '../../schemas/wire.ts';
import { listDeclared } from '../records/custom-fields.ts';

// After a restore to an earlier moment, the log shows what must be done again.
/**
 * Records an audit event, and writes it as a line to PostgreSQL's log. Pass the transaction of the recorded action, so
 * that both commit together or not at all.
 */
export async function recordEvent(sql: Transaction, given: NewAuditEvent): Promise<void> {
  const { event, customerId, userId = null, apiKeyId = null, by, details = {} } = given;
  await Promise.all([
    sql`
      insert into audit_events (customer_id, user_id, api_key_id, event, actor, address, details)
      values (${customerId}, ${userId}, ${apiKeyId}, ${event}, ${by.actor}, ${by.address}, ${sql.json(details)})`,
    sql`select log_audit_event(${event}, ${customerId}, ${userId}, ${apiKeyId}, ${by.actor})`,
  ]);
}

/** Ids of the customer and user that a failed login stores if no user has the e-mail address. */
export const nobody = {
  customerId: lowestId,
  userId: lowestId,
};

/**
 * Maximum number of network addresses that are counted separately for the failed logins of one account, day and reason.
 * Further addresses share a row.
 */
export const maxAddresses = 100;

/**
 * Counts a failed login in the row of its account, day, reason and network address. Never stores the e-mail that was
 * entered, because people sometimes type their password into that field.
 */
export async function recordFailedLogin(
  sql: Transaction,
  customerId: string,
  { userId, reason, address }: { userId: string; reason: RefusalCause; address: string },
): Promise<void> {
  // An account has about `maxAddresses` rows at most for a day and reason, so attackers cannot fill the table.
  const today = sql`customer_id = ${customerId} and user_id = ${userId} and day = current_date and reason = ${reason}`;
  await sql`
    insert into failed_logins (customer_id, user_id, day, reason, address)
    select
      ${customerId}, ${userId}, current_date, ${reason},
      case
        when (select count(*) from failed_logins where ${today} and address <> '') < ${maxAddresses}
          or exists (select 1 from failed_logins where ${today} and address = ${address})
        then ${address}
        else ''
      end
    on conflict (customer_id, user_id, day, reason, address)
    do update set attempts = failed_logins.attempts + 1, last_at = excluded.last_at`;
}

/**
 * Returns audit events, newest first. Failed logins with the same account, day, reason and network address are one
 * event, at the time of the last attempt.
 */
export const listEvents = (sql: Queryable, customerId: string, limit: number): Promise<AuditEvent[]> => sql`
  with others as (
    select id, created_at, event, actor, address, user_id, api_key_id, details
    from audit_events
    where customer_id = ${customerId}
    order by id desc
    limit ${limit}
  ),
  failed as (
    select
      f.id, f.last_at as created_at, 'user.login_failed' as event, 'anonymous' as actor,
      nullif(f.address, '') as address, f.user_id, null::uuid as api_key_id,
      jsonb_build_object(
        'email', u.email,
        'reason', f.reason,
        'attempts', f.attempts::text,
        'first_at', to_char(f.first_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      ) as details
    from failed_logins f
    join users u on u.customer_id = f.customer_id and u.id = f.user_id
    where f.customer_id = ${customerId}
    order by f.last_at desc
    limit ${limit}
  )
  select * from others
  union all
  select * from failed
  order by created_at desc, id desc
  limit ${limit}`;

export type CustomerStatus = 'OK' | 'SUSPENDED';

export interface Customer {
  id: string;
  business_name: string;
  status: CustomerStatus;
  country: string | null;
  city: string | null;
  created_at: string;
}

const columns = (sql: Queryable) => sql`id, business_name, status, country, city, created_at`;

type NewCustomer = Pick<Customer, 'business_name' | 'country' | 'city'>;

/** Creates a customer with an active free subscription, a sales pipeline and empty credit balances. */
export async function createCustomer(sql: Transaction, given: NewCustomer): Promise<Customer> {
  const [customer] = await sql<[Customer]>`
    insert into customers (business_name, country, city)
    values (${given.business_name}, ${given.country}, ${given.city})
    returning ${columns(sql)}`;
  await sql`
    insert into subscriptions (customer_id, tier_id)
    select ${customer.id}, id
    from subscription_tiers
    where tier = 0`;
  await createPipeline(sql, customer.id, {
    name: 'Sales',
    description: '',
    currency: 'USD',
    visibility: 'PUBLIC',
    stages: salesStages,
  });
  await insertBalances(sql, customer.id);
  await recordEvent(sql, { event: 'customer.created', customerId: customer.id, by: commandLine });
  return customer;
}

export const listCustomers = (sql: Sql): Promise<Customer[]> => sql`
  select ${columns(sql)}
  from customers
  order by id desc`;

export async function requireCustomer(sql: Queryable, customerId: string): Promise<Customer> {
  const [customer] = await sql<Customer[]>`
    select ${columns(sql)}
    from customers
    where id = ${customerId}`;
  if (!customer) throw notFound('customer');
  return customer;
}

export async function setCustomerStatus(sql: Transaction, customerId: string, status: CustomerStatus): Promise<void> {
  const changed = await sql`
    update customers
    set status = ${status}, updated_at = (select clock_timestamp())
    where id = ${customerId}
      and status <> ${status}`;
  if (changed.count === 0) return;
  const event = status === 'OK' ? 'customer.resumed' : 'customer.suspended';
  await recordEvent(sql, { event, customerId, by: commandLine });
}

/** Returns a customer's summary. `subscription.balance` excludes the credits that jobs have reserved. */
export async function findCustomerSummary(sql: Sql, customerId: string): Promise<Omit<CustomerSummary, 'api_key'>> {
  const [row] = await sql<[Omit<CustomerSummary, 'api_key'>]>`
    select
      jsonb_build_object(
        'id', c.id, 'business_name', c.business_name, 'status', c.status, 'country', c.country, 'city', c.city
      ) as customer,
      seats.users_count,
      jsonb_build_object(
        'id', s.id, 'status', s.status, 'balance', b.available, 'price', s.price::text, 'periodicity', s.periodicity,
        'currency', lower(s.currency), 'active_seats', seats.active_seats,
        'tier', jsonb_build_object(
          'id', t.id, 'title', t.title, 'tier', t.tier, 'is_free', t.is_free, 'price', t.price::text
        )
      ) as subscription
    from customers c
    join subscriptions s on s.customer_id = c.id
    join credit_balances b on b.customer_id = c.id and b.pool = 'subscription'
    join subscription_tiers t on t.id = s.tier_id
    cross join (
      select count(*)::int as users_count, (count(*) filter (where active))::int as active_seats
      from users
      where customer_id = ${customerId}
    ) seats
    where c.id = ${customerId}`;
  return row;
}

export async function hasCustomerWithoutUser(sql: Queryable, email: string): Promise<boolean> {
  const [row] = await sql<[{ has_others: boolean }]>`
    select exists (
      select 1
      from customers c
      where c.id not in (select u.customer_id from users u where u.email_folded = ${fold(email)})
    ) as has_others`;
  return row.has_others;
}

interface FieldName {
  object: DeclaredObject;
  key: string;
}

/**
 * Declares a custom field. Does nothing if the same declaration exists.
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

export async function removeDeclaration(sql: Transaction, customerId: string, { object, key }: FieldName, by: Actor) {
  const removed = await sql`
    delete from declared_fields
    where customer_id = ${customerId}
      and object = ${object}
      and key = ${key}`;
  if (removed.count === 0) throw notFound('declared field');
  await recordEvent(sql, { event: 'field.removed', customerId, by, details: { object, key } });
}

export type ViewObject = 'contacts' | 'companies' | 'opportunities';

/** Maximum number of views of one user. Two views that are saved at the same moment can exceed it. */
const maxViews = 100;

export interface SavedView {
  id: string;
  user_id: string;
  object: ViewObject;
  name: string;
  query: string;
  is_shared: boolean;
}

export const listSavedViews = (sql: Queryable, customerId: string, userId: string): Promise<SavedView[]> => sql`
  select id, user_id, object, name, query, is_shared
  from saved_views
  where customer_id = ${customerId}
    and (user_id = ${userId} or is_shared)
  order by name, id`;

/**
 * Saves a view. Replaces a view of the same user, table and name.
 * @throws DomainError `conflict` if the user has too many views
 */
export async function saveView(
  sql: Transaction,
  customerId: string,
  { user_id, object, name, query, is_shared }: Omit<SavedView, 'id'>,
): Promise<void> {
  const [others] = await sql<[{ count: number }]>`
    select count(*)::integer as count
    from saved_views
    where customer_id = ${customerId}
      and user_id = ${user_id}
      and (object, name) <> (${object}, ${name})`;
  if (others.count >= maxViews) throw conflict(`You have ${maxViews} views already: delete one first`);
  await sql`
    insert into saved_views (customer_id, user_id, object, name, query, is_shared)
    values (${customerId}, ${user_id}, ${object}, ${name}, ${query}, ${is_shared})
    on conflict (customer_id, user_id, object, name) do update
    set query = excluded.query, is_shared = excluded.is_shared`;
}

export const deleteView = (sql: Transaction, customerId: string, id: string) => sql`
  delete from saved_views
  where customer_id = ${customerId}
    and id = ${id}`;
