import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Transaction } from '../../database/db.ts';
import { findProducts, listProducts, productWrites } from '../../queries/crm/products.ts';
import { listPipelinesWithStages } from '../../queries/crm/pipelines.ts';
import { ProductCreate } from '../../schemas/products.ts';
import { findUnstorableText } from '../../text/json.ts';
import { compile } from '../../validation/validator.ts';
import { findOpportunities, opportunityWrites } from '../../queries/crm/opportunities.ts';
import { OpportunityCreate, OpportunityPatch, priorities } from '../../schemas/opportunities.ts';
import type { Opportunity, Line, LinesPatch } from '../../schemas/opportunities.ts';
import { canonicalId } from '../../text/ids.ts';
import { faultText, group, option, select, controlsFor, tick, hidden, type Choice } from '../base/forms.ts';
import {
  lookUp,
  search,
  fieldsOf,
  text,
  linesIn,
  asSentBack,
  values,
  idsIn,
  queryOf,
  queryText,
} from '../base/requests.ts';
import type { Fields } from '../base/requests.ts';
import { formMessage } from '../base/refusals.ts';
import { when, quiet, table, html, type Html, type Column } from '../base/html.ts';
import { dayIn, dayOf, startOf, readNumber, count, counted } from '../base/values.ts';
import { opportunityWords, priorityWords, money } from '../base/words.ts';
import { editor, requireRecord, type Draft, type EditForm } from './editor.ts';
import { listCompanies, findCompanies } from '../../queries/crm/companies.ts';
import { findContacts, listContacts } from '../../queries/crm/contacts.ts';
import type { Fault } from '../../errors.ts';
import { fold } from '../../text/fold.ts';
import { nameOfContact } from './kinds.ts';
import { usersOf, companySuggestions, userChoices } from './record-form.ts';
import { pipelinesFor } from './pipelines.ts';

const section = '/app/opportunities';

export const opportunityEdit = (app: FastifyInstance): void =>
  editor<Opportunity>(app, {
    path: section,
    noun: 'opportunity',
    schemas: { create: OpportunityCreate, patch: OpportunityPatch },
    about: requireOpportunity,
    nameOf: ({ name }) => name,
    bodyOf: opportunityOf,
    controls: opportunityControls,
    prepare: withNewProduct,
    ...opportunityWrites,
    question: ({ name, contacts_ids }) =>
      html`<strong>${name}</strong> is deleted. This can be undone. Its ${counted(contacts_ids.length, 'contact')}, its
        company and its products stay.`,
  });

export const requireOpportunity = (request: FastifyRequest): Promise<Opportunity> =>
  requireRecord(request, 'opportunity', findOpportunities);

const emptyRows = 3;

const maxOpen = 10;

/** Maximum number of e-mail addresses by which one form adds contacts. */
const maxAddresses = 50;

const productChoices = 100;

/** Maximum number of products, and of contacts, that the form of a stored opportunity shows. Others stay unchanged. */
const maxShown = 100;

const maxRows = 300;

const shownContacts = 'shown_contacts';

const plainFields = ['name', 'description', 'stage_id', 'priority', 'user_id_assigned'] as const;
const dateFields = ['estimated_closing_date', 'close_date'] as const;

async function draftOf(request: FastifyRequest, found: Opportunity): Promise<Fields> {
  const ids = found.company_id === null ? [] : [found.company_id];
  const [company] = await lookUp(request, findCompanies, ids);
  return {
    ...Object.fromEntries(plainFields.map((name) => [name, found[name]])),
    ...Object.fromEntries(dateFields.map((name) => [name, dayOf(found[name])])),
    company: company?.company_name ?? '',
    contact: found.contacts_ids.slice(0, maxShown),
    ...rowFields(found.details.slice(0, maxShown)),
  };
}

const rowFields = (lines: Opportunity['details']) => ({
  product: lines.map(({ product_id }) => product_id),
  price: lines.map(({ price }) => String(price)),
  quantity: lines.map(({ quantity }) => String(quantity)),
});

async function blankDraft(request: FastifyRequest): Promise<Fields> {
  const idIn = (name: string) => idsIn(queryOf(request), name, 1);
  const [[contact], [company], pipelines] = await Promise.all([
    lookUp(request, findContacts, idIn('contact')),
    lookUp(request, findCompanies, idIn('company')),
    pipelinesFor(request),
  ]);
  const inAMonth = dayIn(30);
  return {
    name: '',
    company: company?.company_name ?? contact?.company.company_name ?? '',
    contact: contact ? [contact.id] : [],
    stage_id: queryText(request, 'stage') || pipelines[0]?.stages[0]?.id,
    priority: 'NONE',
    user_id_assigned: request.caller.userId,
    ...Object.fromEntries(dateFields.map((one) => [one, inAMonth])),
  };
}

const canonicalOr = (given: string): string => canonicalId(given) ?? given;

type Row = Record<'id' | 'price' | 'quantity', string>;

function rowsOf(fields: Fields): Row[] {
  const [ids = [], prices = [], quantities = []] = ['product', 'price', 'quantity'].map((name) =>
    values(fields, name, maxRows),
  );
  const rows = Array.from({ length: Math.max(ids.length, prices.length, quantities.length) }, (_, i) => ({
    id: ids[i] ?? '',
    price: (prices[i] ?? '').trim(),
    quantity: (quantities[i] ?? '').trim(),
  }));
  return rows.filter((row) => Object.values(row).some((text) => text !== ''));
}

/**
 * Returns the products that a form's rows add or change, and those that they remove. An empty quantity removes a stored
 * product. Stored products without a row stay.
 */
function linesOf(
  rows: readonly Row[],
  { stored, prices, faults }: { stored: Opportunity['details']; prices: ReadonlyMap<string, number>; faults: Fault[] },
) {
  const before = new Map(stored.map((line) => [line.product_id, line]));
  const lines: Line[] = [];
  const removed: string[] = [];
  const refuse = (message: string) => faults.push({ path: '/products', message });
  for (const { id: given, price, quantity } of rows) {
    const id = canonicalOr(given);
    if (quantity === '' && before.has(id)) removed.push(id);
    else if (quantity === '' && price === '') continue;
    else if (id === '') refuse('choose a product for each price and quantity');
    else if (quantity === '') refuse('give a quantity for each price');
    else {
      const known = before.get(id)?.price;
      const amount = price === '' ? prices.get(id) : price === String(known) ? known : readNumber(price);
      const number = wholeNumber(quantity);
      const unclear = `the price “${price}” is not clear: write it as 1249 or 1249.50`;
      if (amount === undefined) refuse(price === '' ? 'give a price for each product' : unclear);
      if (number === undefined) refuse(`the quantity “${quantity}” is not clear: write it as 1000`);
      if (amount !== undefined && number !== undefined) lines.push({ id, price: amount, quantity: number });
    }
  }
  return { lines, removed };
}

/** Returns the list prices of the products in rows without a price, by product id. */
async function pricesOf(request: FastifyRequest, rows: readonly Row[]): Promise<ReadonlyMap<string, number>> {
  const ids = rows.flatMap(({ id, price }) => (price === '' ? (canonicalId(id) ?? []) : []));
  const found = await lookUp(request, findProducts, ids);
  return new Map(found.map(({ id, price }) => [id, price]));
}

/** Converts a text of digits to a number. Returns undefined for other texts, such as `1,000`. */
const wholeNumber = (given: string): number | undefined => (/^\d{1,10}$/.test(given) ? Number(given) : undefined);

function linesPatch(stored: Opportunity, { lines, removed }: ReturnType<typeof linesOf>): LinesPatch {
  const before = new Map(stored.details.map((line) => [line.product_id, line]));
  const isChanged = ({ id, price, quantity }: Line) =>
    before.get(id)?.price !== price || before.get(id)?.quantity !== quantity;
  return {
    add: lines.filter(({ id }) => !before.has(id)),
    remove: removed,
    update: lines.filter((line) => before.has(line.id) && isChanged(line)),
  };
}

/** Returns the contacts of an opportunity after a form was sent. Keeps stored contacts that the form does not show. */
function contactsOf(fields: Fields, stored: readonly string[], added: readonly string[]): string[] {
  const ticked = values(fields, 'contact', maxShown + maxAddresses).map(canonicalOr);
  const shown = new Set(text(fields, shownContacts).split(','));
  const kept = stored.filter((id) => !shown.has(id) || ticked.includes(id));
  return [...new Set([...kept, ...ticked, ...added])];
}

/**
 * Reads a submitted form. Finds the company by its name, and further contacts by e-mail address.
 * @param stored undefined for a new opportunity
 */
async function opportunityOf(request: FastifyRequest, stored: Opportunity | undefined): Promise<Draft> {
  const fields = fieldsOf(request);
  const before = stored ? await draftOf(request, stored) : {};
  const plain = plainFields.flatMap((name) => {
    const given = linesIn(fields, name);
    return stored && given === asSentBack(stored[name]) ? [] : [[name, given.trim()] as const];
  });
  const dates = dateFields.flatMap((name) =>
    stored && text(fields, name) === text(before, name) ? [] : [[name, startOf(text(fields, name))] as const],
  );
  const faults: Fault[] = [];
  const company = text(fields, 'company').trim();
  const companyId = company === text(before, 'company') ? undefined : await companyNamed(request, company, faults);
  const rows = [...rowsOf(fields), ...newRowOf(fields, faults)];
  const prices = await pricesOf(request, rows);
  const lines = linesOf(rows, { stored: stored?.details ?? [], prices, faults });
  const added = await contactsAt(request, text(fields, 'emails'), faults);
  const contacts = contactsOf(fields, stored?.contacts_ids ?? [], added);
  const body = {
    ...Object.fromEntries([...plain, ...dates]),
    ...(stored?.contacts_ids.join() === contacts.join() ? {} : { contacts_ids: contacts }),
    ...(companyId === undefined || (companyId === null && !stored) ? {} : { company_id: companyId }),
    products: stored ? linesPatch(stored, lines) : lines.lines,
  };
  return { body, faults };
}

/** Placeholder for the id of a product that is created together with the opportunity. */
const newProductId = randomUUID();

const newFields = ['new_product', 'new_price', 'new_quantity'] as const;

const checkProduct = compile(ProductCreate);

const productNamed = (fields: Fields) => ({ name: text(fields, 'new_product').trim(), price: 0, unit: 'piece' });

function newRowOf(fields: Fields, faults: Fault[]): Row[] {
  const [name, price, quantity] = newFields.map((one) => text(fields, one).trim()) as [string, string, string];
  if (name === '' && price === '' && quantity === '') return [];
  for (const { message } of [...findUnstorableText(name), ...checkProduct.faultsOf(productNamed(fields), formMessage)])
    faults.push({ path: '/products', message: `the name of the new product ${message}` });
  return [{ id: newProductId, price, quantity: quantity || '1' }];
}

/** Creates the new product that a form names. Puts its id into the body in place of `newProductId`. */
async function withNewProduct(sql: Transaction, request: FastifyRequest, body: object): Promise<object> {
  const given = JSON.stringify(body);
  if (!given.includes(newProductId)) return body;
  const { customerId } = request.caller;
  const fields = fieldsOf(request);
  const pipelines = await listPipelinesWithStages(sql, customerId);
  const stage = canonicalId(text(fields, 'stage_id'));
  const pipeline = pipelines.find(({ stages }) => stages.some(({ id }) => id === stage));
  const product = { ...productNamed(fields), price: readNumber(text(fields, 'new_price')) ?? 0 };
  const id = await productWrites.create(sql, customerId, {
    ...product,
    ...(pipeline && { currency: pipeline.currency }),
  });
  return JSON.parse(given.replaceAll(newProductId, id)) as object;
}

/**
 * Returns the id of the company with this name, or null for an empty name. If there is none, adds a fault and returns
 * undefined.
 */
async function companyNamed({ db, caller }: FastifyRequest, name: string, faults: Fault[]) {
  if (name === '') return null;
  const query = { filters: { company_name: name }, paginate: { limit: 1 } };
  const [found] = (await listCompanies(db, caller.customerId, query)).rows;
  if (!found) faults.push({ path: '/company', message: 'there is no company with this name. Create it first' });
  return found?.id;
}

/**
 * Returns the ids of the contacts with these e-mail addresses. If several contacts share an address, returns the
 * newest.
 */
async function contactsAt({ db, caller }: FastifyRequest, given: string, faults: Fault[]): Promise<string[]> {
  const addresses = [...new Set(given.split(/[\s,;]+/).filter((one) => one !== ''))];
  if (addresses.length > maxAddresses) faults.push({ path: '/emails', message: `at most ${maxAddresses} at once` });
  if (addresses.length === 0 || addresses.length > maxAddresses) return [];
  const query = { filters: { work_email: addresses }, paginate: { limit: 100 } };
  const { rows } = await listContacts(db, caller.customerId, query);
  const byAddress = new Map(rows.toReversed().map(({ work_email, id }) => [fold(work_email), id] as const));
  const unknown = addresses.filter((address) => !byAddress.has(fold(address)));
  if (unknown.length > 0) faults.push({ path: '/emails', message: `no contact has ${unknown.join(', ')}` });
  return addresses.flatMap((address) => byAddress.get(fold(address)) ?? []);
}

async function opportunityControls(form: EditForm<Opportunity>, request: FastifyRequest): Promise<Html> {
  const { stored, sent, faults } = form;
  const draft = sent ?? (stored ? await draftOf(request, stored) : await blankDraft(request));
  const ids = idsIn(draft, 'contact', maxShown + maxAddresses);
  const before = text(draft, shownContacts).split(',');
  const shown = [...new Set([...before.flatMap((id) => canonicalId(id) ?? []), ...ids])];
  const [pipelines, users, products, contacts] = await Promise.all([
    pipelinesFor(request, stored?.stage_id),
    usersOf(request),
    listProducts(request.db, request.caller.customerId, { paginate: { limit: productChoices } }),
    search(request, findContacts, ids),
  ]);
  const { draw, input, area, choice } = controlsFor(draft, faults);
  const words = opportunityWords;
  const stages = pipelines.map(({ name, stages }) => {
    const options = stages.map((stage) => option(stage.id, stage.name, text(draft, 'stage_id')));
    return html`<optgroup label="${name}">!${options}</optgroup>`;
  });
  const known = new Map<string, string>([
    ...(stored?.details ?? []).map(({ product_id, name }) => [product_id, name] as const),
    ...products.rows
      .filter((one) => one.active)
      .map(({ id, name, price, currency }) => [id, `${name} (${money(price, currency)})`] as const),
  ]);
  const levels = priorities.map((one) => [one, priorityWords[one].word] as const);
  const owners = userChoices(users, text(draft, 'user_id_assigned')).slice(1);
  return html`!${group(
      'Opportunity',
      html`<div class="columns">
        !${input('name', words.name)}
        !${draw(
          'stage_id',
          words.stage_id,
          '',
          (attributes) =>
            html`<select !${attributes}>
              !${stages}
            </select>`,
        )}
        !${choice('priority', words.priority, levels)} !${choice('user_id_assigned', words.user_id_assigned, owners)}
        !${dateFields.map((name) => input(name, words[name], { type: 'date' }))}
        !${input('company', words.company_id, { more: companySuggestions })} !${area('description', words.description)}
      </div>`,
    )}
    !${group(
      words.contacts_ids,
      html`!${hidden({ [shownContacts]: shown.join() })} !${moreNote(stored?.contacts_ids.length ?? 0, 'contacts')}
        <p class="row">
          !${contacts.map((one) => tick('checkbox', ['contact', one.id], html`${nameOfContact(one)}`, true))}
        </p>
        !${area('emails', 'Add contacts', 'Their work e-mail addresses, one on each line.', '')}`,
    )}
    <h2>${words.details}</h2>
    <p class="quiet">The amount of the opportunity is the sum of its products. Empty the quantity to take one out.</p>
    !${moreNote(stored?.details.length ?? 0, 'products')} !${faultText('products', faults)}
    !${productTable(draft, known)}`;
}

const moreNote = (all: number, noun: string): Html =>
  when(all > maxShown, quiet(`The first ${maxShown} of ${count(all)} ${noun} are shown. The others stay.`));

function productTable(draft: Fields, known: ReadonlyMap<string, string>): Html {
  let open = 0;
  const typed = rowsOf(draft).filter(({ id }) => id !== '' || (open += 1) <= maxOpen);
  const blank: Row = { id: '', price: '', quantity: '' };
  const [name, price, quantity] = newFields.map((one) => text(draft, one)) as [string, string, string];
  const added = { id: newProductId, price, quantity };
  const rows = [...typed, ...Array.from({ length: emptyRows }, () => blank), added];
  const input = (part: string, value: string, label: string, more: Html) =>
    html`<input name="${part}" value="${value}" aria-label="${label}" autocomplete="off" !${more} />`;
  const numberIn = (member: 'price' | 'quantity', label: string, more: Html) => (row: Row, i: number) =>
    row === added
      ? input(`new_${member}`, row[member], `${label} of the new product`, 'inputmode="decimal"')
      : input(member, row[member], `${label} of product ${i + 1}`, more);
  const product = (row: Row, i: number): Html => {
    if (row === added)
      return input('new_product', name, 'Name of a new product', 'maxlength="255" placeholder="or a new product"');
    const choices: Choice[] = [['', '–'], ...known];
    if (row.id === '') return select(html`name="product" aria-label="Product ${i + 1}"`, choices, '');
    // Other products cannot be chosen in its place: a long list in each row would make the page too large.
    return html`!${hidden({ product: row.id })}${known.get(row.id) ?? 'the chosen product'}`;
  };
  const columns: readonly Column<Row>[] = [
    ['Product', product, 'long'],
    ['Price', numberIn('price', 'Price', 'inputmode="decimal" placeholder="as listed"')],
    ['Quantity', numberIn('quantity', 'Quantity', 'inputmode="numeric"')],
  ];
  return table('Products', columns, rows);
}
