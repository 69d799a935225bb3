import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { make, opportunityBody, productBody } from '../setup/factories.ts';

const app = await startApp();
const customer = await app.customer();
const products = await Promise.all(Array.from({ length: 4 }, () => make(customer, '/products', productBody())));

/** Money in the model: an integer number of ten-thousandths, so that sums are exact. */
const unit = 10_000;
const limit = 10n ** 15n;

interface ModelLine {
  product: number;
  price: number;
  quantity: number;
}
interface Patch {
  add: ModelLine[];
  remove: number[];
  update: { product: number; price: number | undefined; quantity: number | undefined }[];
}

const product = fc.nat(3);
const price = fc.oneof(fc.nat(99_999), fc.nat(10 ** 9), fc.nat(10 ** 13 - 1));
const quantity = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 1_000_000 }));
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const lines = fc.array(fc.record({ product, price, quantity }), { maxLength: 2 });
const patches = fc.array(
  fc.record({
    add: lines,
    remove: fc.array(product, { maxLength: 1 }),
    update: fc.array(fc.record({ product, price: optional(price), quantity: optional(quantity) }), { maxLength: 1 }),
  }),
  { minLength: 1, maxLength: 8 },
);

/** Returns the outcome of a patch by the contract: the status, and the lines afterwards. */
function apply(before: ModelLine[], { add, remove, update }: Patch): { status: number; after: ModelLine[] } {
  const refused = (status: number) => ({ status, after: before });
  const named = [...add.map((one) => one.product), ...remove, ...update.map((one) => one.product)];
  const isThere = (wanted: number) => before.some((one) => one.product === wanted);
  if (new Set(named).size < named.length) return refused(400);
  if (![...remove, ...update.map((one) => one.product)].every(isThere)) return refused(404);
  if (add.some((one) => isThere(one.product))) return refused(409);
  const kept = before.filter((one) => !remove.includes(one.product));
  const updated = kept.map((one) => {
    const change = update.find((other) => other.product === one.product);
    return { ...one, price: change?.price ?? one.price, quantity: change?.quantity ?? one.quantity };
  });
  const after = [...updated, ...add];
  return totalOf(after) < limit ? { status: 200, after } : refused(400);
}

const totalOf = (all: ModelLine[]): bigint =>
  all.reduce((sum, one) => sum + BigInt(one.price) * BigInt(one.quantity), 0n);

/** Returns the number whose shortest decimal form is this many ten-thousandths. */
const asNumber = (tenThousandths: bigint): number =>
  Number(`${tenThousandths / BigInt(unit)}.${String(tenThousandths % BigInt(unit)).padStart(4, '0')}`);

const asLine = (one: { product: number; price: number | undefined; quantity: number | undefined }) => ({
  id: products[one.product],
  ...(one.price === undefined ? {} : { price: one.price / unit }),
  ...(one.quantity === undefined ? {} : { quantity: one.quantity }),
});

const asDetail = (one: ModelLine) => ({
  product_id: products[one.product],
  name: 'Engine',
  price: one.price / unit,
  quantity: one.quantity,
  total: asNumber(BigInt(one.price) * BigInt(one.quantity)),
});

describe('an opportunity after any sequence of changes of its products', () => {
  test('has the lines in order and the exact total that the contract requires', async () => {
    const body = await opportunityBody(customer);
    await fc.assert(
      fc.asyncProperty(patches, async (sequence) => {
        const id = await make(customer, '/opportunities', body);
        let model: ModelLine[] = [];
        for (const patch of sequence) {
          const { status, after } = apply(model, patch);
          const sent = {
            add: patch.add.map(asLine),
            remove: patch.remove.map((one) => products[one]),
            update: patch.update.map(asLine),
          };
          const answer = await customer.patch(`/opportunities/${id}`, { products: sent });
          expect([answer.status, sent]).toEqual([status, sent]);
          model = after;
          const { price: total, details } = (await customer.get(`/opportunities/${id}`)).body;
          expect({ total, details }).toEqual({ total: asNumber(totalOf(model)), details: model.map(asDetail) });
        }
      }),
      { numRuns: 60 },
    );
  });
});
