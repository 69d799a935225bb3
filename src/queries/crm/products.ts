import type { Locked, Queryable, Transaction } from '../../database/db.ts';
import { productSource } from '../../filters/columns.ts';
import { constant, type FragmentMaker } from '../../filters/sql.ts';
import { productFileFields } from '../../schemas/files.ts';
import { productFields } from '../../schemas/products.ts';
import type { Product, ProductCreate, ProductListItem, ProductPatch } from '../../schemas/products.ts';
import { normalise } from '../../text/fold.ts';
import { recordReads } from './record-pages.ts';
import { productTable, type WrittenTable } from '../records/batch-rows.ts';
import type { Batch, Item } from '../records/batches.ts';
import { addDeletions, recordWrites, writeRows } from '../records/record-writes.ts';

type ProductColumns = Pick<Product, (typeof productFields)[number]>;

const projection = (sql: FragmentMaker) =>
  constant(sql, `p.id, ${productFields.map((name) => `p.${name}`).join(', ')}, p.created_at, p.updated_at`);

export const {
  find: findProducts,
  list: listProducts,
  export: exportProducts,
} = recordReads<ProductListItem, Product>({
  source: productSource,
  projection,
  fields: productFileFields,
  title: 'Products',
  listed: (sql, customerId) => {
    const used = sql`from opportunity_lines l where l.customer_id = ${customerId}::uuid and l.product_id = p.id`;
    return sql`
      ${projection(sql)},
      (select count(*) ${used}) as opportunities_count,
      (select count(distinct l.pipeline_id) ${used}) as pipelines_count`;
  },
});

async function blankProduct(
  sql: Transaction,
  customerId: string,
  { operation }: Batch,
  items: readonly Item<ProductColumns>[],
): Promise<ProductColumns> {
  const blank = { name: '', currency: '', price: 0, unit: '', active: true, external_id: null };
  if (operation === 'update' || items.every(({ body }) => body['currency'] !== undefined)) return blank;
  return { ...blank, currency: await usualCurrency(sql, customerId) };
}

/** Returns the currency of the customer's subscription, which new products get by default. */
export async function usualCurrency(sql: Queryable, customerId: string): Promise<string> {
  const [subscription] = await sql<{ currency: string }[]>`
    select upper(currency) as currency
    from subscriptions
    where customer_id = ${customerId}`;
  return subscription!.currency;
}

const written: WrittenTable<ProductColumns> = { name: 'products', columns: productFields };

/**
 * Functions that write products. A new product without a currency gets that of the customer's subscription. Lines of
 * opportunities keep their price. A deleted product that opportunities use is only marked as deleted, because they show
 * its name.
 */
export const productWrites = recordWrites<ProductColumns, Product, ProductCreate, ProductPatch>({
  ...productTable,
  // A transaction that adds a line locks the product's row too. So no line can appear before a deletion.
  lock: (sql, customerId, ids, operation) => sql<Locked<ProductColumns>[]>`
    select id, ${sql(productFields)}
    from products
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])
      and deleted_at is null
    order by id
    for ${sql.unsafe(operation === 'delete' ? 'update' : 'no key update')}`,
  find: findProducts,
  prepare: async (writing) => {
    const { sql, customerId, batch, items } = writing;
    const blank = await blankProduct(sql, customerId, batch, items);
    return {
      patched: (body, stored = blank) => ({ ...stored, ...normalise(body) }),
      write: async () => void (await writeRows(writing, 'product', written, (columns) => ({ ...columns }))),
    };
  },
  remove: async ({ sql, customerId, deferred }, removed) => {
    const ids = removed.map(({ id }) => id);
    await sql`
      update products p
      set deleted_at = (select clock_timestamp())
      where p.customer_id = ${customerId}
        and p.id = any(${ids}::uuid[])
        and exists (
          select 1 from opportunity_lines l
          where l.customer_id = ${customerId}
            and l.product_id = p.id
        )`;
    await sql`
      delete from products
      where customer_id = ${customerId}
        and id = any(${ids}::uuid[])
        and deleted_at is null`;
    addDeletions(deferred, 'product', removed);
  },
});
