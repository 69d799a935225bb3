import type { Sql, Transaction } from '../db.ts';
import { requireMatch } from '../etag.ts';
import { notFound } from '../errors.ts';
import { constant, join } from '../filters/sql.ts';
import { normalise } from '../normalise.ts';
import {
  productFields,
  type Product,
  type ProductCreate,
  type ProductListItem,
  type ProductPatch,
} from '../schemas/products.ts';
import type { Paginate } from '../schemas/wire.ts';
import { pageOf } from './page.ts';

/** What a caller decides of a product, as its row keeps it. */
type ProductColumns = Pick<Product, (typeof productFields)[number]>;

/** A product as it is answered. */
const projection = (sql: Sql | Transaction) => sql`
  p.id,
  ${sql(productFields.map((column) => `p.${column}`))},
  p.created_at,
  p.updated_at`;

/** A page of the products, newest first, each with where it is used, counted as the lines stand. */
export const listProducts = (sql: Sql, customerId: string, paginate?: Paginate): Promise<ProductListItem[]> =>
  sql<ProductListItem[]>`
    select
      ${projection(sql)},
      used.opportunities_count,
      used.pipelines_count
    from products p
    cross join lateral (
      select count(*) as opportunities_count, count(distinct l.pipeline_id) as pipelines_count
      from opportunity_lines l
      where l.customer_id = p.customer_id
        and l.product_id = p.id
    ) used
    where p.customer_id = ${customerId}
      and p.id = any(array(
        select id
        from products
        where customer_id = ${customerId}
          and deleted_at is null
        order by id desc
        ${pageOf(sql, paginate)}
      ))
    order by p.id desc`;

/** One product, if the customer has it. */
export async function findProduct(
  sql: Sql | Transaction,
  customerId: string,
  id: string,
): Promise<Product | undefined> {
  const [product] = await sql<Product[]>`
    select ${projection(sql)}
    from products p
    where p.customer_id = ${customerId}
      and p.id = ${id}
      and p.deleted_at is null`;
  return product;
}

/** What a new product gets from the body alone. */
const insertedFields = productFields.filter((field) => field !== 'currency');

/**
 * Makes a product, in the subscription's currency unless another is given.
 * @returns its id
 */
export async function createProduct(sql: Transaction, customerId: string, body: ProductCreate): Promise<string> {
  const given: Omit<ProductColumns, 'currency'> & Partial<ProductColumns> = { active: true, ...normalise(body) };
  const { currency = null, ...columns } = given;
  const values = insertedFields.map((field) => sql`${columns[field]}`);
  const [product] = await sql<{ id: string }[]>`
    insert into products (customer_id, currency, ${constant(sql, insertedFields.join(', '))})
    select customer_id, coalesce(${currency}, upper(currency)), ${join(sql, values, ',', '')}
    from subscriptions
    where customer_id = ${customerId}
    returning id`;
  return product!.id;
}

/**
 * Changes what `patch` names; lines of opportunities keep the price that they were given.
 * @throws not_found, precondition_failed
 */
export async function changeProduct(
  sql: Transaction,
  customerId: string,
  id: string,
  patch: ProductPatch,
  ifMatch?: string,
): Promise<void> {
  await lockProduct(sql, customerId, id, 'no key update', ifMatch);
  if (Object.keys(patch).length === 0) return;
  await sql`
    update products
    set ${sql(normalise(patch))}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
}

/**
 * Deletes a product. Where opportunities use it, the row stays for the name of their lines, and is found no more; a line
 * that is being added meanwhile holds the row, so that the answer to "does any use it" is still true when it is deleted.
 * @throws not_found, precondition_failed
 */
export async function deleteProduct(sql: Transaction, customerId: string, id: string, ifMatch?: string): Promise<void> {
  await lockProduct(sql, customerId, id, 'update', ifMatch);
  const kept = await sql`
    update products p
    set deleted_at = (select clock_timestamp())
    where p.customer_id = ${customerId}
      and p.id = ${id}
      and exists (
        select from opportunity_lines l
        where l.customer_id = p.customer_id
          and l.product_id = p.id
      )`;
  if (kept.count > 0) return;
  await sql`
    delete from products
    where customer_id = ${customerId}
      and id = ${id}`;
}

/** Locks a product until the transaction ends: for `update`, no line can be added with it meanwhile. */
async function lockProduct(
  sql: Transaction,
  customerId: string,
  id: string,
  strength: 'update' | 'no key update',
  ifMatch: string | undefined,
): Promise<void> {
  const [product] = await sql`
    select id
    from products
    where customer_id = ${customerId}
      and id = ${id}
      and deleted_at is null
    for ${sql.unsafe(strength)}`;
  if (!product) throw notFound('product');
  if (ifMatch !== undefined) requireMatch(ifMatch, (await findProduct(sql, customerId, id))!);
}
