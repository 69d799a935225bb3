import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import { commandLine } from '../../schemas/audit.ts';
import type { CustomerSummary } from '../../schemas/customers.ts';
import { fold } from '../../text/fold.ts';
import { recordEvent } from './audit.ts';
import { insertBalances } from '../jobs/credits.ts';
import { createPipeline, salesStages } from '../sales/pipelines.ts';

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

/** With an active free subscription, a sales pipeline and empty credit balances. */
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

export const listCustomers = (sql: Sql): Promise<Customer[]> =>
  sql<Customer[]>`
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

/** `subscription.balance` is the number of available prospect credits, without those that jobs have reserved. */
export async function findCustomerSummary(sql: Sql, customerId: string): Promise<CustomerSummary> {
  const [row] = await sql<[CustomerSummary]>`
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

/** True if a customer has no user with this email address. */
export async function hasCustomersBeside(sql: Queryable, email: string): Promise<boolean> {
  const [row] = await sql<[{ has_others: boolean }]>`
    select exists (
      select 1
      from customers c
      where c.id not in (select u.customer_id from users u where u.email_folded = ${fold(email)})
    ) as has_others`;
  return row.has_others;
}
