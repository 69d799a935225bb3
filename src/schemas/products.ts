import { Type, type Static } from '@sinclair/typebox';
import { Currency, Instant, Name, Price, Text, Uuid } from './wire.ts';

/** Fields of a product that callers can write. Responses contain these fields too. */
const writable = {
  name: Name({ examples: ['Difference Engine No. 2'] }),
  currency: Currency(),
  price: Price(),
  unit: Text(64, { minLength: 1, examples: ['piece'] }),
  active: Type.Boolean(),
};

/** Names of the product fields that callers can write. The database columns have the same names. */
export const productFields = Object.keys(writable) as (keyof typeof writable)[];

const productProperties = {
  id: Uuid(),
  ...writable,
  created_at: Instant(),
  updated_at: Instant(),
};

/** A single product, as responses show it. */
export const Product = Type.Object(productProperties, { title: 'Product' });
export type Product = Static<typeof Product>;

/** A product in a list, with the number of opportunities and pipelines that use it. */
export const ProductListItem = Type.Object(
  {
    ...productProperties,
    opportunities_count: Type.Integer({ minimum: 0, description: 'opportunities that use it' }),
    pipelines_count: Type.Integer({ minimum: 0, description: 'pipelines that contain those opportunities' }),
  },
  { title: 'ProductListItem' },
);
export type ProductListItem = Static<typeof ProductListItem>;

const { name, price, unit, ...optional } = writable;

/**
 * Request body for a new product. By default, a product is active and has the currency of the customer's subscription.
 */
export const ProductCreate = Type.Composite([Type.Object({ name, price, unit }), Type.Partial(Type.Object(optional))], {
  additionalProperties: false,
  title: 'ProductCreate',
  examples: [{ name: 'Difference Engine No. 2', price: 1249.9, unit: 'piece', currency: 'EUR' }],
});
export type ProductCreate = Static<typeof ProductCreate>;

/**
 * Request body for changing a product (PATCH). Fields that are not sent do not change. A new price does not change the
 * opportunities that already use the product.
 */
export const ProductPatch = Type.Partial(Type.Object(writable), {
  additionalProperties: false,
  title: 'ProductPatch',
  examples: [{ price: 1199, active: false }],
});
export type ProductPatch = Static<typeof ProductPatch>;
