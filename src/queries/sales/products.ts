import type { Queryable, Sql, Transaction } from '../../database/db.ts';
import { notFound } from '../../errors.ts';
import { requireMatch } from '../../text/etag.ts';
import { constant, join } from '../../filters/sql.ts';
import {
  productFields,
  type Product,
  type ProductCreate,
  type ProductListItem,
  type ProductPatch,
} from '../../schemas/products.ts';
import { normalise } from '../../text/normalise.ts';
import {
  findByIds,
  type CreateRecord,
  type DeleteRecord,
  type FindRecords,
  type UpdateRecord,
} from '../records/finders.ts';
import { withLastWrites } from '../records/last-writes.ts';
import { isAfter, limitAndOffset, type PageById } from '../records/paging.ts';

type ProductColumns = Pick<Product, (typeof productFields)[number]>;

const projection = (sql: Queryable) => sql`
  p.id,
  ${sql(productFields.map((column) => `p.${column}`))},
  p.created_at,
  p.updated_at`;

/** Newest first, with the numbers of opportunities and pipelines that use each. */
export const listProducts = (sql: Sql, customerId: string, paginate?: PageById): Promise<ProductListItem[]> =>
  sql<ProductListItem[]>`
    select
      ${projection(sql)},
      used.opportunities_count,
      used.pipelines_count
    from products p
    cross join lateral (
      select count(*) as opportunities_count, count(distinct l.pipeline_id) as pipelines_count
      from opportunity_lines l
      where l.customer_id = ${customerId}
        and l.product_id = p.id
    ) used
    where p.customer_id = ${customerId}
      and p.id = any(array(
        select id
        from products
        where customer_id = ${customerId}
          and deleted_at is null
          and ${isAfter(sql, 'id', paginate)}
        order by id desc
        ${limitAndOffset(sql, paginate)}
      ))
    order by p.id desc`;

/** In any order, without unknown ids. */
export const findProducts: FindRecords<Product> = (sql, customerId, ids) =>
  findByIds(
    sql,
    ids,
    sql`
      select ${projection(sql)}
      from products p
      where p.customer_id = ${customerId}
        and p.id = wanted.id
        and p.deleted_at is null`,
  );

/** Without the currency: its default comes from the customer's subscription. */
const insertedFields = productFields.filter((field) => field !== 'currency');

/**
 * Without a currency, the product gets that of the customer's subscription.
 * @returns its id
 */
export const createProduct: CreateRecord<ProductCreate> = (sql, customerId, body) =>
  withLastWrites(sql, customerId, async (last) => {
    const id = await insertProduct(sql, customerId, body);
    last.created('product', { id });
    return id;
  });

async function insertProduct(sql: Transaction, customerId: string, body: ProductCreate): Promise<string> {
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
 * Updates the fields that `patch` contains. Existing lines keep the old price.
 * @throws DomainError `not_found`; `precondition_failed` if `ifMatch` is not the product's ETag
 */
export const updateProduct: UpdateRecord<ProductPatch> = async (sql, customerId, id, patch, ifMatch) => {
  const current = await lockProduct(sql, customerId, id, 'no key update', ifMatch);
  if (Object.keys(patch).length === 0) return;
  const columns = normalise(patch);
  await sql`
    update products
    set ${sql(columns)}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
  await withLastWrites(sql, customerId, async (last) => last.updated('product', { id }, current, columns));
};

/**
 * Deletes a product. One in use is only marked as deleted, because opportunities still show its name.
 * @throws DomainError `not_found`; `precondition_failed` if `ifMatch` is not the product's ETag
 */
export const deleteProduct: DeleteRecord = async (sql, customerId, id, ifMatch) => {
  // A transaction that adds a line locks the product's row too. So no line with this product can appear before the
  // deletion.
  const product = await lockProduct(sql, customerId, id, 'update', ifMatch);
  await removeProduct(sql, customerId, id);
  await withLastWrites(sql, customerId, async (last) => last.deleted('product', { id }, product));
};

async function removeProduct(sql: Transaction, customerId: string, id: string): Promise<void> {
  const kept = await sql`
    update products p
    set deleted_at = (select clock_timestamp())
    where p.customer_id = ${customerId}
      and p.id = ${id}
      and exists (
        select 1 from opportunity_lines l
        where l.customer_id = ${customerId}
          and l.product_id = p.id
      )`;
  if (kept.count > 0) return;
  await sql`
    delete from products
    where customer_id = ${customerId}
      and id = ${id}`;
}

/**
 * Locks a product until the transaction ends, and returns its columns. With `strength = 'update'`, it cannot be added to an opportunity until
 * then.
 * @throws DomainError `not_found`; `precondition_failed` if `ifMatch` is not the product's ETag
 */
async function lockProduct(
  sql: Transaction,
  customerId: string,
  id: string,
  strength: 'update' | 'no key update',
  ifMatch: string | undefined,
): Promise<ProductColumns> {
  const [product] = await sql<ProductColumns[]>`
    select ${sql(productFields)}
    from products
    where customer_id = ${customerId}
      and id = ${id}
      and deleted_at is null
    for ${sql.unsafe(strength)}`;
  if (!product) throw notFound('product');
  if (ifMatch !== undefined) requireMatch(ifMatch, (await findProducts(sql, customerId, [id]))[0]!);
  return product;
}
