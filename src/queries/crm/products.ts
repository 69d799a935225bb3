import type { Locked, Transaction } from '../../database/db.ts';
import { productSource } from '../../filters/columns.ts';
import { constant, type FragmentMaker } from '../../filters/sql.ts';
import { productFileFields } from '../../schemas/files.ts';
import { productFields } from '../../schemas/products.ts';
import type { Product, ProductCreate, ProductListItem, ProductPatch } from '../../schemas/products.ts';
import { normalise } from '../../text/fold.ts';
import { recordReads } from './record-pages.ts';
import { assignExternalIds } from '../records/references.ts';
import {
  canonicalOf,
  lockMatching,
  productTable,
  readBatch,
  addEvents,
  setColumns,
  setDeleted,
  setUnchanged,
  writeItems,
} from '../records/batch-rows.ts';
import type { BatchRecords, WrittenTable } from '../records/batch-rows.ts';
import {
  pendingItems,
  endIfAtomic,
  openItems,
  outcomesOf,
  requireSingleMatch,
  singleWrites,
  withRepeats,
} from '../records/batches.ts';
import type { Batch, Item, Outcome, ReadOutcome } from '../records/batches.ts';
import { lockBulk, type DeferredWrites } from '../records/deferred-writes.ts';
import { findByIds, type FindRecords } from '../records/finders.ts';

type ProductColumns = Pick<Product, (typeof productFields)[number]>;
type ProductItem = Item<ProductColumns>;

const projection = (sql: FragmentMaker) =>
  constant(sql, `p.id, ${productFields.map((name) => `p.${name}`).join(', ')}, p.created_at, p.updated_at`);

export const { list: listProducts, export: exportProducts } = recordReads<ProductListItem>({
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

/**
 * Create, change and delete a single product. A new product without a currency gets the currency of the customer's
 * subscription. Lines of opportunities keep their price.
 */
export const {
  create: createProduct,
  update: updateProduct,
  remove: deleteProduct,
} = singleWrites<ProductCreate, ProductPatch>('product', (...given) => writeProductBatch(...given));

const products: BatchRecords<ProductColumns, Product> = {
  ...productTable,
  // A transaction that adds a line locks the product's row too. So no line can appear before a deletion.
  lock: lockProducts,
  find: findProducts,
};

export function lockProducts(
  sql: Transaction,
  customerId: string,
  ids: string[],
  operation?: Batch['operation'],
): Promise<Locked<ProductColumns>[]> {
  return sql<Locked<ProductColumns>[]>`
    select id, ${sql(productFields)}
    from products
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])
      and deleted_at is null
    order by id
    for ${sql.unsafe(operation === 'delete' ? 'update' : 'no key update')}`;
}

export async function writeProductBatch(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  deferred: DeferredWrites,
): Promise<Outcome[]> {
  if (!batch.single) await lockBulk(sql, customerId);
  return withRepeats(sql, deferred, async (attempt, own) => {
    const items = openItems<ProductColumns>(batch, canonicalOf(batch.match));
    await lockMatching(attempt, customerId, products, batch, items);
    await requireSingleMatch(batch, items, (ids) => findProducts(attempt, customerId, ids));
    if (batch.operation === 'delete') await remove(attempt, customerId, batch, items, own);
    else {
      const blank = await blankProduct(attempt, customerId, pendingItems(items));
      for (const item of pendingItems(items))
        setColumns(products, batch, item, (body, stored = blank) => ({ ...stored, ...normalise(body) }));
      await assignExternalIds(attempt, customerId, products, batch, items);
      endIfAtomic(batch, items);
      await write(attempt, customerId, items, own);
    }
    return outcomesOf(items);
  });
}

export const readProductBatch = (
  sql: Transaction,
  customerId: string,
  batch: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Product>[]> => readBatch(sql, customerId, products, batch);

async function blankProduct(
  sql: Transaction,
  customerId: string,
  items: readonly ProductItem[],
): Promise<ProductColumns> {
  const blank = { name: '', currency: '', price: 0, unit: '', active: true, external_id: null };
  if (items.every(({ stored, body }) => stored || body['currency'] !== undefined)) return blank;
  const [subscription] = await sql<{ currency: string }[]>`
    select upper(currency) as currency
    from subscriptions
    where customer_id = ${customerId}`;
  return { ...blank, currency: subscription!.currency };
}

const written: WrittenTable<ProductColumns> = { name: 'products', columns: productFields };

async function write(
  sql: Transaction,
  customerId: string,
  items: readonly ProductItem[],
  deferred: DeferredWrites,
): Promise<void> {
  setUnchanged(items);
  const changes = await writeItems(sql, customerId, written, items, (columns) => ({ ...columns }));
  addEvents(deferred, 'product', changes);
}

/** Deletes products. A product in use is only marked as deleted, because opportunities still show its name. */
async function remove(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  items: readonly ProductItem[],
  deferred: DeferredWrites,
): Promise<void> {
  endIfAtomic(batch, items);
  const removed = pendingItems(items).map(({ stored }) => stored!);
  const ids = setDeleted(items);
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
  for (const { id, ...values } of removed) deferred.deleted('product', { id, external_id: values.external_id }, values);
}
