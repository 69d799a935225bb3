import type { FastifyInstance } from 'fastify';
import { findProducts, listProducts, productWrites } from '../../queries/crm/products.ts';
import {
  ProductCreate,
  ProductPatch,
  productTable,
  type Product,
  type ProductListItem,
} from '../../schemas/products.ts';
import { forMembers, addPage } from '../base/layout.ts';
import { cursorPager } from '../base/forms.ts';
import { idOf, queryText } from '../base/requests.ts';
import { when, badge, empty, table, searchBox, pathWith, linkButton, dialogLink, html } from '../base/html.ts';
import type { Column } from '../base/html.ts';
import { count } from '../base/values.ts';
import { money } from '../base/words.ts';
import { fieldForm } from './record-form.ts';
import { formFieldsOf } from './record-kind.ts';
import { editor, requireRecord, savedNotice } from './editor.ts';

const section = '/app/products';

const schemas = { create: ProductCreate, patch: ProductPatch };

export async function products(app: FastifyInstance): Promise<void> {
  addPage(app, '/products', forMembers, async (request) => {
    const [search, cursor] = ['search', 'cursor'].map((name) => queryText(request, name).trim()) as [string, string];
    const { rows, nextCursor } = await listProducts(request.db, request.caller.customerId, {
      filters: search === '' ? {} : { name: { contains: search } },
      paginate: cursor === '' ? {} : { cursor },
    });
    const add = linkButton('New product', `${section}/new`);
    const none =
      search === '' && cursor === ''
        ? empty('No products yet', 'What you sell, with its price. Opportunities are sums of products.', 'deal', add)
        : empty('No product matches', 'Search for a part of its name.', 'search', linkButton('Show all', section));
    return {
      title: 'Products',
      actions: when(rows.length > 0, add),
      body: html`!${savedNotice(request, 'product')}
        <search>
          <form class="filters" method="get" action="${section}">!${searchBox('products', search)}</form>
        </search>
        !${table('Products', columns, rows, none)} !${cursorPager(request, nextCursor)}`,
    };
  });

  addPage(app, '/products/:id', forMembers, (request) => {
    const done = queryText(request, 'done');
    return done === '' ? `${section}/${idOf(request, 'product')}/edit` : pathWith(section, { done });
  });

  editor<Product>(app, {
    path: section,
    noun: 'product',
    schemas,
    ...fieldForm({ schemas, fields: formFieldsOf(productTable), suggested: { unit: 'piece', active: 'true' } }),
    about: (request) => requireRecord(request, 'product', findProducts),
    nameOf: ({ name }) => name,
    ...productWrites,
    question: ({ name }) =>
      html`<strong>${name}</strong> is deleted. This can be undone. Opportunities keep it with its price.`,
    back: () => section,
  });
}

const columns: readonly Column<ProductListItem>[] = [
  ['Product', ({ id, name }) => html`<a href="${section}/${id}/edit">${name}</a>`],
  ['Price', ({ price, currency }) => money(price, currency), 'number'],
  ['Unit', ({ unit }) => html`${unit}`],
  ['Opportunities', ({ opportunities_count }) => count(opportunities_count), 'number'],
  ['State', ({ active }) => (active ? badge('offered', 'good') : badge('not offered', 'plain'))],
  ['Actions', ({ id, name }) => dialogLink('Delete', `${section}/${id}/delete`, `Delete ${name}`)],
];
