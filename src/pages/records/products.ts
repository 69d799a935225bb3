import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Fault } from '../../errors.ts';
import { createProduct, deleteProduct, findProducts, listProducts, updateProduct } from '../../queries/crm/products.ts';
import { ProductCreate, ProductPatch, type Product, type ProductListItem } from '../../schemas/products.ts';
import { etagOf } from '../../text/ids.ts';
import { forMembers, goTo, sendPage } from '../base/layout.ts';
import { asSentBack, fieldsOf, idOf, inputField, queryOf, selectField, text, type Fields } from '../base/forms.ts';
import { badge, count, cursorPager, empty, html, linkButton, table, searchBox, readNumber } from '../base/html.ts';
import type { Column, Html } from '../base/html.ts';
import { money } from '../base/words.ts';
import { editor, requireRecord, savedNotice, type EditForm } from './editor.ts';

const section = '/app/products';

export async function products(app: FastifyInstance): Promise<void> {
  app.get('/products', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const [search, cursor] = ['search', 'cursor'].map((name) => text(queryOf(request), name).trim()) as [
      string,
      string,
    ];
    const { rows, nextCursor } = await listProducts(db, caller.customerId, {
      filters: search === '' ? {} : { name: { contains: search } },
      paginate: cursor === '' ? {} : { cursor },
    });
    const add = linkButton('New product', `${section}/new`);
    const none =
      search === '' && cursor === ''
        ? empty('No products yet', 'What you sell, with its price. Opportunities are sums of products.', add, 'deal')
        : empty('No product matches', 'Search for a part of its name.', linkButton('Show all', section), 'search');
    return sendPage(request, reply, {
      title: 'Products',
      actions: rows.length > 0 ? add : '',
      body: html`!${savedNotice(request, 'product')}
        <search>
          <form class="filters" method="get" action="${section}">!${searchBox('products', search)}</form>
        </search>
        !${table('Products', columns, rows, none)} !${cursorPager(section, cursor, nextCursor, { search })}`,
    });
  });

  app.get('/products/:id', forMembers, async (request, reply) => {
    const done = text(queryOf(request), 'done');
    return goTo(
      reply,
      done === '' ? `${section}/${idOf(request, 'product')}/edit` : `${section}?done=${encodeURIComponent(done)}`,
    );
  });

  editor<Product>(app, {
    path: section,
    noun: 'product',
    schemas: { create: ProductCreate, patch: ProductPatch },
    require: (request) => requireRecord(request, 'product', findProducts),
    nameOf: ({ name }) => name,
    tagOf: etagOf,
    bodyOf: productOf,
    controls,
    verb: 'Save',
    create: (sql, { customerId }, body) => createProduct(sql, customerId, body),
    update: updateProduct,
    remove: deleteProduct,
    question: (_request, { name }) =>
      html`<strong>${name}</strong> is deleted. For 90 days this can be undone. Opportunities keep it with its price.`,
    showsNotice: true,
    back: () => section,
  });
}

const columns: readonly Column<ProductListItem>[] = [
  ['Product', ({ id, name }) => html`<a href="${section}/${id}/edit">${name}</a>`],
  ['Price', ({ price, currency }) => money(price, currency), 'number'],
  ['Unit', ({ unit }) => html`${unit}`],
  ['Opportunities', ({ opportunities_count }) => count(opportunities_count), 'number'],
  ['State', ({ active }) => (active ? badge('offered', 'good') : badge('not offered', 'plain'))],
  [
    'Actions',
    ({ id, name }) => html`<a href="${section}/${id}/delete" data-dialog aria-label="Delete ${name}">Delete</a>`,
  ],
];

const draftOf = ({ name, price, currency, unit, active }: Product): Record<string, string> => ({
  name,
  price: String(price),
  currency,
  unit,
  active: active ? '1' : '0',
});

async function productOf(
  request: FastifyRequest,
  stored: Product | undefined,
): Promise<{ body: object; faults: Fault[] }> {
  const fields = fieldsOf(request);
  const before: Record<string, string> = stored ? draftOf(stored) : { currency: '' };
  const given = (name: string): string => text(fields, name).trim();
  const price = readNumber(given('price'));
  const body = {
    name: given('name'),
    price: price ?? given('price'),
    currency: given('currency'),
    unit: given('unit'),
    active: given('active') !== '0',
  };
  const changes = Object.entries(body).filter(([name]) => given(name) !== asSentBack(before[name] ?? '\n'));
  const isUnclear = price === undefined && given('price') !== '' && given('price') !== before['price'];
  const message = `“${given('price')}” is not clear: write it as 1249 or 1249.50`;
  return { body: Object.fromEntries(changes), faults: isUnclear ? [{ path: '/price', message }] : [] };
}

async function controls(
  _request: FastifyRequest,
  { stored, sent, refused: { faults }, isConflict }: EditForm<Product>,
): Promise<Html> {
  const saved = stored ? draftOf(stored) : { unit: 'piece', active: '1' };
  const draft: Fields = sent ?? saved;
  const named = (name: string, label: string, hint = '') => {
    const now = isConflict && stored ? draftOf(stored)[name] : undefined;
    const theirs = now === undefined || now === text(draft, name) ? hint : `Stored now: ${now}`;
    return { name, label, hint: theirs, faults };
  };
  const input = (name: string, label: string, hint = '', more: Html = 'maxlength="255" autocomplete="off"') =>
    inputField(named(name, label, hint), text(draft, name), 'text', more);
  return html`<div class="card narrow">
    !${input('name', 'Name')}
    !${input('price', 'Price of one', 'Opportunities that have the product keep their price.', 'inputmode="decimal" maxlength="40"')}
    !${input('currency', 'Currency', 'Such as EUR. Empty: that of your subscription.', 'maxlength="3" autocomplete="off"')}
    !${input('unit', 'Unit', 'What is counted, such as piece or hour.')}
    !${selectField(
      named('active', 'Opportunities can get it'),
      [
        ['1', 'yes'],
        ['0', 'no'],
      ],
      text(draft, 'active'),
    )}
  </div>`;
}
