import type { FastifyInstance, FastifyRequest } from 'fastify';
import { findProducts, listProducts, productWrites } from '../../queries/crm/products.ts';
import { ProductCreate, ProductPatch, type Product, type ProductListItem } from '../../schemas/products.ts';
import { forMembers, addPage } from '../base/layout.ts';
import { controlsFor, cursorPager, differing } from '../base/forms.ts';
import { fieldsOf, text, asSentBack, idOf, queryText } from '../base/requests.ts';
import { when, badge, empty, table, searchBox, pathWith, linkButton, dialogLink, html } from '../base/html.ts';
import type { Html, Column } from '../base/html.ts';
import { readNumber, count } from '../base/values.ts';
import { money } from '../base/words.ts';
import { editor, requireRecord, savedNotice, type Draft, type EditForm } from './editor.ts';

const section = '/app/products';

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
    schemas: { create: ProductCreate, patch: ProductPatch },
    about: (request) => requireRecord(request, 'product', findProducts),
    nameOf: ({ name }) => name,
    bodyOf: productOf,
    controls,
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

const draftOf = ({ name, price, currency, unit, active }: Product): Record<string, string> => ({
  name,
  price: String(price),
  currency,
  unit,
  active: active ? '1' : '0',
});

function productOf(request: FastifyRequest, stored: Product | undefined): Draft {
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

function controls({ stored, sent, faults, isConflict }: EditForm<Product>): Html {
  const saved = stored ? draftOf(stored) : { unit: 'piece', active: '1' };
  const theirs = sent && stored && isConflict ? differing(draftOf(stored), sent) : {};
  const { input, choice } = controlsFor(sent ?? saved, faults, theirs);
  return html`<div class="card narrow">
    !${input('name', 'Name')}
    !${input('price', 'Price of one', {
      hint: 'Opportunities that have the product keep their price.',
      more: 'inputmode="decimal" maxlength="40"',
    })}
    !${input('currency', 'Currency', {
      hint: 'Such as EUR. Empty: that of your subscription.',
      more: 'maxlength="3" autocomplete="off"',
    })}
    !${input('unit', 'Unit', { hint: 'What is counted, such as piece or hour.' })}
    !${choice('active', 'Opportunities can get it', [
      ['1', 'yes'],
      ['0', 'no'],
    ])}
  </div>`;
}
