import type { FastifyInstance } from 'fastify';
import { findProducts, listProducts, productWrites, usualCurrency } from '../../queries/crm/products.ts';
import { ProductCreate, ProductPatch, productTable } from '../../schemas/products.ts';
import type { Product, ProductListItem } from '../../schemas/products.ts';
import { forMembers, addPage, listPage } from '../base/layout.ts';
import { cursorPager, filterChoice, filters } from '../base/forms.ts';
import { idOf, lookUp, queryText, ask, placeIn } from '../base/requests.ts';
import { badge, searchBox, pathWith, linkButton, dialogLink, html, link, count, type Column } from '../base/html.ts';
import { amountName, money } from '../base/words.ts';
import { fieldForm, editor, requireRecord } from './editor.ts';
import { formFieldsOf } from './kinds.ts';

const section = '/app/products';

const showAll = `${section}?show=all`;

/** Fields of the form, in the order in which people fill them in. */
const order = ['name', 'price', 'unit', 'currency', 'active'];

const schemas = { create: ProductCreate, patch: ProductPatch };

export async function products(app: FastifyInstance): Promise<void> {
  addPage(app, '/products', forMembers, async (request) => {
    const [search, show, place] = [queryText(request, 'search').trim(), queryText(request, 'show'), placeIn(request)];
    // The product of amounts is nobody's to choose.
    const shown = show === 'all' ? { _or: [{ active: true }, { name: { ne: amountName } }] } : { active: true };
    const { rows, nextCursor } = await ask(request, listProducts, {
      filters: { ...shown, ...(search !== '' && { name: { contains: search } }) },
      paginate: place,
    });
    const which = filterChoice('show', 'Which', { '': 'offered', all: 'all' }, show);
    return listPage({
      title: 'Products',
      add: linkButton('New product', `${section}/new`),
      above: html`<search>!${filters(section, html`!${searchBox('products', search)} !${which}`, '')}</search>`,
      columns: columns.filter(([head]) => show === 'all' || head !== 'State'),
      rows,
      none:
        search === '' && !place.cursor
          ? ['Nothing is offered yet', 'What you sell, with its price. Opportunities are sums of products.', 'deal']
          : ['No product matches', 'Search for a part of its name.', 'search', linkButton('Show all', showAll)],
      below: cursorPager(request, nextCursor),
    });
  });

  addPage(app, '/products/:id', forMembers, (request) => {
    const done = queryText(request, 'done');
    return done === '' ? `${section}/${idOf(request, 'product')}/edit` : pathWith(section, { done });
  });

  editor<Product>(app, {
    path: section,
    noun: 'product',
    schemas,
    ...fieldForm({
      schemas,
      fields: formFieldsOf(productTable).toSorted((a, b) => order.indexOf(a.name) - order.indexOf(b.name)),
      suggested: async (request) => ({ unit: 'piece', active: 'true', currency: await lookUp(request, usualCurrency) }),
    }),
    about: (request) => requireRecord(request, 'product', findProducts),
    nameOf: ({ name }) => name,
    ...productWrites,
    question: ({ name }) =>
      html`<strong>${name}</strong> will be deleted. This can be undone. Opportunities keep it with its price.`,
    back: () => section,
  });
}

const columns: readonly Column<ProductListItem>[] = [
  ['Product', ({ id, name }) => link(name, `${section}/${id}/edit`)],
  ['Price', ({ price, currency, unit }) => html`${money(price, currency)} per ${unit}`],
  ['Opportunities', ({ opportunities_count }) => count(opportunities_count), 'number'],
  ['State', ({ active }) => (active ? badge('offered', 'good') : badge('not offered', 'plain'))],
  ['Actions', ({ id, name }) => dialogLink('Delete', `${section}/${id}/delete`, `Delete ${name}`)],
];
