import { Type, type Static } from '@sinclair/typebox';
import { CreatedAt, Currency, Name, Price, Text, UpdatedAt, Uuid } from './base/wire.ts';

const writable = {
  name: Name({ description: 'Name of the product: 1–255 characters.', examples: ['Difference Engine No. 2'] }),
  currency: Currency('ISO 4217 currency code. Requests may use any case. By default the currency of the subscription.'),
  price: Price('List price of one unit, with at most 4 decimals.'),
  unit: Text(64, { minLength: 1, description: 'What is counted, as free text.', examples: ['piece'] }),
  active: Type.Boolean({ description: 'Whether the product is offered. By default true.' }),
};

/** The database columns have the same names. */
export const productFields = Object.keys(writable) as (keyof typeof writable)[];

const productProperties = {
  id: Uuid('Id of the product.'),
  ...writable,
  created_at: CreatedAt(),
  updated_at: UpdatedAt(),
};

export const Product = Type.Object(productProperties, { title: 'Product' });
export type Product = Static<typeof Product>;

export const ProductListItem = Type.Object(
  {
    ...productProperties,
    opportunities_count: Type.Integer({ minimum: 0, description: 'Number of opportunities that use it.' }),
    pipelines_count: Type.Integer({ minimum: 0, description: 'Number of pipelines that contain those opportunities.' }),
  },
  { title: 'ProductListItem' },
);
export type ProductListItem = Static<typeof ProductListItem>;

const { name, price, unit, ...optional } = writable;

/** By default, a product is active and has the currency of the customer's subscription. */
export const ProductCreate = Type.Composite([Type.Object({ name, price, unit }), Type.Partial(Type.Object(optional))], {
  additionalProperties: false,
  title: 'ProductCreate',
  examples: [{ name: 'Difference Engine No. 2', price: 1249.9, unit: 'piece', currency: 'EUR' }],
});
export type ProductCreate = Static<typeof ProductCreate>;

/** Omitted fields do not change. A new price does not affect opportunities that already use the product. */
export const ProductPatch = Type.Partial(Type.Object(writable), {
  additionalProperties: false,
  title: 'ProductPatch',
  examples: [{ price: 1199, active: false }],
});
export type ProductPatch = Static<typeof ProductPatch>;
