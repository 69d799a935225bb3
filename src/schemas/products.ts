import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import type { FieldTable } from './wire.ts';
import { Filters, filterFieldsOf, listBodies, textOfFilters } from './filters.ts';

const writable = {
  name: wire.Name({ description: 'Name of the product: 1–255 characters.', examples: ['Difference Engine No. 2'] }),
  currency: wire.Currency(
    'ISO 4217 currency code. Requests may use any case. By default the currency of the subscription.',
  ),
  price: wire.Price('List price of one unit, with at most 4 decimals.'),
  unit: wire.Text(64, { minLength: 1, description: 'What is counted, as free text.', examples: ['piece'] }),
  active: Type.Boolean({ description: 'Whether the product is offered. By default true.' }),
  external_id: wire.ExternalId(),
};

export const productFields = Object.keys(writable) as (keyof typeof writable)[];

const productProperties = {
  id: wire.Uuid('Id of the product.'),
  ...writable,
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
};

export const Product = Type.Object(productProperties, { title: 'Product' });
export type Product = Static<typeof Product>;

export const productTable = {
  id: { label: 'Id', filter: 'uuid', isInternal: true },
  external_id: { label: 'Your own id', filter: 'exact', isInternal: true },
  name: { label: 'Name', filter: 'text', form: { group: 'Product' } },
  currency: { label: 'Currency', filter: 'text', form: { group: 'Product', control: 'currency' } },
  price: {
    label: 'Price',
    filter: 'number',
    form: {
      group: 'Product',
      control: 'amount',
      hint: 'Of one unit. Opportunities keep the price that they have.',
    },
  },
  unit: {
    label: 'Unit',
    filter: 'text',
    form: { group: 'Product', hint: 'What is counted, such as piece or hour.' },
  },
  active: {
    label: 'Offered',
    filter: 'boolean',
    isUnsorted: true,
    form: { group: 'Product', control: 'yes_no', hint: 'Whether new opportunities can get it.', isRare: true },
  },
  created_at: { label: 'Created', filter: 'instant', isIndexed: true },
  updated_at: { label: 'Last changed', filter: 'instant', isIndexed: true },
} as const satisfies FieldTable<keyof Product>;

export const productFilterFields = filterFieldsOf('products', 'Product', productTable, false);
const example = { active: true, price: { lt: 100 } };
export const ProductFilters = Filters(productFilterFields, textOfFilters(), example);

export const { query: ProductQuery } = listBodies(productFilterFields, ProductFilters, {
  filters: example,
  order: { name: 'ASC' },
  orderBy: ['price', 'name'],
});

export const ProductListItem = wire.Named('ProductListItem', {
  ...productProperties,
  opportunities_count: Type.Integer({ minimum: 0, description: 'Number of opportunities that use it.' }),
  pipelines_count: Type.Integer({ minimum: 0, description: 'Number of pipelines that contain those opportunities.' }),
});
export type ProductListItem = Static<typeof ProductListItem>;

const { name, price, unit, ...optional } = writable;

/**
 * Body that creates a product. By default, the product is active and has the currency of the customer's subscription.
 */
export const ProductCreate = Type.Composite([Type.Object({ name, price, unit }), Type.Partial(Type.Object(optional))], {
  additionalProperties: false,
  title: 'ProductCreate',
  examples: [{ name: 'Difference Engine No. 2', price: 1249.9, unit: 'piece', currency: 'EUR' }],
});
export type ProductCreate = Static<typeof ProductCreate>;

/**
 * Body that changes a product. Omitted fields do not change. A new price does not affect opportunities that already use
 * the product.
 */
export const ProductPatch = wire.PartialBody('ProductPatch', [{ price: 1199, active: false }], writable);
export type ProductPatch = Static<typeof ProductPatch>;
