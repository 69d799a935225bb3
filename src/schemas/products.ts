import { Type, type Static } from '@sinclair/typebox';
import { Currency, Instant, Name, Price, Text, Uuid } from './wire.ts';

/** What a caller may write of a product, as it is answered too. */
const writable = {
  name: Name({ examples: ['Difference Engine No. 2'] }),
  currency: Currency(),
  price: Price(),
  unit: Text(64, { minLength: 1, examples: ['piece'] }),
  active: Type.Boolean(),
};

const productProperties = {
  id: Uuid(),
  ...writable,
  created_at: Instant(),
  updated_at: Instant(),
};

/** A single product. */
export const Product = Type.Object(productProperties, { title: 'Product' });
export type Product = Static<typeof Product>;

/** A product in a list: also where it is used. */
export const ProductListItem = Type.Object(
  {
    ...productProperties,
    opportunities_count: Type.Integer({ minimum: 0, description: 'opportunities that use it' }),
    pipelines_count: Type.Integer({ minimum: 0, description: 'pipelines that those opportunities stand in' }),
  },
  { title: 'ProductListItem' },
);
export type ProductListItem = Static<typeof ProductListItem>;

const { name, price, unit, ...optional } = writable;

/** A new product; active and in the subscription's currency when it does not say otherwise. */
export const ProductCreate = Type.Composite([Type.Object({ name, price, unit }), Type.Partial(Type.Object(optional))], {
  additionalProperties: false,
  title: 'ProductCreate',
  examples: [{ name: 'Difference Engine No. 2', price: 1249.9, unit: 'piece', currency: 'EUR' }],
});
export type ProductCreate = Static<typeof ProductCreate>;

/** Changes of a product: only what is sent changes. Lines of opportunities keep the price they were given. */
export const ProductPatch = Type.Partial(Type.Object(writable), {
  additionalProperties: false,
  title: 'ProductPatch',
  examples: [{ price: 1199, active: false }],
});
export type ProductPatch = Static<typeof ProductPatch>;
