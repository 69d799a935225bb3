import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Transaction } from '../../database/db.ts';
import type { Fault } from '../../errors.ts';
import { findCompanies, listCompanies } from '../../queries/crm/companies.ts';
import { findContacts, listContacts } from '../../queries/crm/contacts.ts';
import { findOpportunities, opportunityWrites } from '../../queries/crm/opportunities.ts';
import { listProducts, productWrites } from '../../queries/crm/products.ts';
import { companyWrites } from '../../queries/crm/record-batches.ts';
import { CompanyCreate } from '../../schemas/companies.ts';
import type { Contact } from '../../schemas/contacts.ts';
import { Line, OpportunityCreate, OpportunityPatch, priorities } from '../../schemas/opportunities.ts';
import type { Opportunity, Pipeline } from '../../schemas/opportunities.ts';
import { ProductCreate } from '../../schemas/products.ts';
import { fold } from '../../text/fold.ts';
import { canonicalId } from '../../text/ids.ts';
import { findUnstorableText } from '../../text/json.ts';
import { compile } from '../../validation/validator.ts';
import { choices, faultText, group, option, controlsFor, tick, hidden, textInput, rowEditor } from '../base/forms.ts';
import { differing, rowAct, type Choice } from '../base/forms.ts';
import { lookUp, search, fieldsOf, text, unchanged, rowsIn, idsIn, integer, queryOf, ask } from '../base/requests.ts';
import { formMessage, type Fields } from '../base/requests.ts';
import { when, html, folded, card, sideBySide, dayIn, dayOf, startOf, today, readNumber } from '../base/html.ts';
import { counted, type Html, type Column } from '../base/html.ts';
import { amountName, isAmount, opportunityWords as words, phoneNumber, priorityWords, money } from '../base/words.ts';
import { closingField } from './deals.ts';
import { editor, requireRecord, usersOf, companySuggestions, contactSuggestions, userChoices } from './editor.ts';
import type { Draft, EditForm } from './editor.ts';
import { nameOfContact } from './kinds.ts';
import { pipelinesFor } from './pipelines.ts';

export const opportunityEdit = (app: FastifyInstance): void =>
  editor<Opportunity>(app, {
    path: '/app/opportunities',
    noun: 'opportunity',
    schemas: { create: OpportunityCreate, patch: OpportunityPatch },
    about: requireOpportunity,
    nameOf: ({ name }) => name,
    bodyOf: opportunityOf,
    controls: opportunityControls,
    ...opportunityWrites,
    question: ({ name, contacts_ids }) =>
      html`<strong>${name}</strong> will be deleted. This can be undone. Its ${counted(contacts_ids.length, 'contact')},
        its company and its products stay.`,
  });

export const requireOpportunity = (request: FastifyRequest): Promise<Opportunity> =>
  requireRecord(request, 'opportunity', findOpportunities);

const maxNames = 20;

/** Maximum number of products, and of contacts, that a form shows. Others of a stored opportunity stay unchanged. */
const maxShown = 100;

const maxRows = 300;

const plainFields = ['name', 'description', 'stage_id', 'priority', 'user_id_assigned'] as const;
const dateFields = ['estimated_closing_date', 'close_date'] as const;

async function draftOf(request: FastifyRequest, found: Opportunity): Promise<Fields> {
  const [company] = found.company_id === null ? [] : await lookUp(request, findCompanies, [found.company_id]);
  const amount = found.details.find(isAmount);
  const lines = found.details.filter((line) => line !== amount).slice(0, maxShown);
  return {
    ...Object.fromEntries(plainFields.map((name) => [name, found[name]])),
    ...Object.fromEntries(dateFields.map((name) => [name, dayOf(found[name])])),
    company: company?.company_name ?? '',
    amount: String(amount?.price ?? ''),
    product: lines.map(({ product_id }) => product_id),
    price: lines.map(({ price }) => String(price)),
    quantity: lines.map(({ quantity }) => String(quantity)),
  };
}

async function blankDraft(request: FastifyRequest): Promise<Fields> {
  const idIn = (name: string) => idsIn(queryOf(request), name, 1);
  const [[contact], [company], pipelines] = await Promise.all([
    lookUp(request, findContacts, idIn('contact')),
    lookUp(request, findCompanies, idIn('company')),
    pipelinesFor(request),
  ]);
  return {
    company: company?.company_name ?? contact?.company.company_name ?? '',
    contact: contact ? [contact.id] : [],
    stage_id: (pipelines.find(({ id }) => id === text(queryOf(request), 'pipeline')) ?? pipelines[0])?.stages[0]?.id,
    priority: 'NONE',
    user_id_assigned: request.caller.userId,
    estimated_closing_date: dayIn(30),
  };
}

/** Returns the close date of an opportunity that comes into a stage: today, if it is won or lost earlier than planned. */
export function closing(pipelines: readonly Pipeline[], stageId: string, planned: string): { close_date?: string } {
  const stage = pipelines.flatMap(({ stages }) => stages).find(({ id }) => id === stageId);
  return stage && stage.status !== 'OPEN' && dayOf(planned) > today() ? { close_date: startOf(today()) } : {};
}

interface Reading {
  request: FastifyRequest;
  pipelines: readonly Pipeline[];
  faults: Fault[];
  /** Records that are created together with the opportunity. Until then, `id` stands for them in the body. */
  made: Map<string, { id: string; create: (sql: Transaction) => Promise<string> }>;
}

const kinds = {
  '/company': { schema: CompanyCreate, write: companyWrites.create },
  '/products': { schema: ProductCreate, write: productWrites.create },
};

/** Makes a record together with the opportunity. */
function add({ request, made, faults }: Reading, path: keyof typeof kinds, name: string, body: object): string {
  const { schema, write } = kinds[path];
  const faulty = [...findUnstorableText(name), ...compile(schema).faultsOf(body, formMessage)];
  faults.push(...faulty.map(({ message }) => ({ path, message: `“${name}” ${message}` })));
  const create = (sql: Transaction) => write(sql, request.caller.customerId, body as never);
  const record = made.get(`${path} ${name}`) ?? { id: randomUUID(), create };
  made.set(`${path} ${name}`, record);
  return record.id;
}

async function opportunityOf(request: FastifyRequest, stored: Opportunity | undefined): Promise<Draft> {
  const fields = fieldsOf(request);
  const before = stored ? await draftOf(request, stored) : {};
  const pipelines = await pipelinesFor(request, stored?.stage_id);
  const reading: Reading = { request, pipelines, faults: [], made: new Map() };
  const plain = plainFields.map((name) => [name, unchanged(text(fields, name).trim(), stored ? [stored[name]] : [])]);
  const dates = dateFields.flatMap((name) => {
    const given = text(fields, name in fields ? name : dateFields[0]);
    const isKept = stored && (!(name in fields) || given === text(before, name));
    return isKept ? [] : [[name, startOf(given)] as const];
  });
  const stage = canonicalId(text(fields, 'stage_id')) ?? text(fields, 'stage_id');
  const isMoved = stored ? stage !== stored.stage_id && dates.every(([name]) => name !== 'close_date') : true;
  const company = text(fields, 'company').trim();
  const companyId = company === text(before, 'company') ? undefined : await companyNamed(reading, company);
  const { lines, patch } = await linesOf(stored ?? {}, stage, reading);
  const { ids, faults } = await contactsIn(request, fields);
  const removed = idsIn(fields, 'remove', maxShown);
  const kept = stored?.contacts_ids.filter((id) => !removed.includes(id)) ?? [];
  const body = {
    ...Object.fromEntries([...plain, ...dates]),
    ...(isMoved && closing(pipelines, stage, text(fields, dateFields[1]) || text(fields, dateFields[0]))),
    contacts_ids: [...new Set([...kept, ...ids])],
    ...(companyId === undefined || (companyId === null && !stored) ? {} : { company_id: companyId }),
    products: stored ? patch : lines,
  };
  const complete = async (sql: Transaction): Promise<object> => {
    let given = JSON.stringify(body);
    for (const { id, create } of reading.made.values()) given = given.replaceAll(id, await create(sql));
    return JSON.parse(given) as object;
  };
  return { body, faults: [...reading.faults, ...faults], complete };
}

/** Returns the id of the company with this name, or null for an empty name. A new name makes a company. */
async function companyNamed(reading: Reading, company_name: string): Promise<string | null> {
  if (company_name === '') return null;
  const { request } = reading;
  const query = { filters: { company_name }, paginate: { limit: 1 } };
  const [found] = (await ask(request, listCompanies, query)).rows;
  return found?.id ?? add(reading, '/company', company_name, { company_name, type: 'prospect' });
}

const rowParts = ['product', 'price', 'quantity'] as const;

type Row = Record<(typeof rowParts)[number], string>;

const rowsOf = (fields: Fields): Row[] =>
  rowsIn(fields, rowParts, maxRows).filter((row) => Object.values(row).some((text) => text !== ''));

/**
 * Returns which products of an opportunity a form adds, changes and removes. An amount is stored as a product named
 * "Amount". An empty quantity removes a stored product, and a stored product without a row in the form stays. Prices are
 * written anew for a pipeline with another currency.
 */
async function linesOf({ details = [], stage_id }: Partial<Opportunity>, stage: string, reading: Reading) {
  const { request, faults, pipelines } = reading;
  const fields = fieldsOf(request);
  const [currency, storedCurrency] = [stage, stage_id ?? stage].map(
    (one) => pipelines.find(({ stages }) => stages.some(({ id }) => id === one))?.currency,
  );
  const kept = details.find(isAmount);
  const amount = text(fields, 'amount').trim();
  const amountRow = { product: kept?.product_id ?? amountName, price: amount, quantity: amount === '' ? '' : '1' };
  const sent = [...rowsOf(fields), ...(kept || amount !== '' ? [amountRow] : [])];
  // Stored prices are refused below if the currency changes, also of products beyond the rows of the form.
  const ids = new Set(sent.map(({ product }) => canonicalId(product)));
  const unsent = currency === storedCurrency ? [] : details.filter(({ product_id }) => !ids.has(product_id));
  const rows = [...sent, ...unsent.map(({ product_id: product }): Row => ({ product, price: '', quantity: '1' }))];
  const names = rows.flatMap(({ product }) => (product === '' || canonicalId(product) ? [] : [product]));
  const query = { filters: { name: names }, paginate: { limit: maxRows } };
  const products = names.length === 0 ? [] : (await ask(request, listProducts, query)).rows;
  // Of several products with a name, the newest is meant.
  const named = new Map(products.toReversed().map((one) => [fold(one.name), one]));
  const before = new Map(details.map((line) => [line.product_id, line]));
  const lines: Line[] = [];
  const remove: string[] = [];
  for (const row of rows) {
    const { product, quantity } = row;
    const refuse = (message: string) => faults.push({ path: row === amountRow ? '/amount' : '/products', message });
    const found = named.get(fold(product));
    const known = canonicalId(product) ?? found?.id;
    const line = known === undefined ? undefined : before.get(known);
    const stored = line && String(line.price);
    const price = row.price || (stored ?? '');
    const listed = found?.currency === (currency ?? found?.currency) ? found?.price : undefined;
    const agreed = price === '' ? listed : price === stored ? line?.price : readNumber(price);
    // A text that is no number stays a text, which the validation refuses with a message.
    const given = {
      id: known ?? randomUUID(),
      price: agreed ?? (price as never),
      quantity: integer({ quantity: quantity || '1' }, 'quantity'),
    };
    const [fault] = compile(Line).faultsOf(given, formMessage);
    if (line && quantity === '' && canonicalId(product)) remove.push(line.product_id);
    else if (product === '') refuse('name a product for each price and quantity');
    else if (agreed === undefined && price === '')
      refuse(`give a price for “${product}”${currency ? ` in ${currency}` : ''}`);
    else if (fault) refuse(`“${fault.path === '/quantity' ? quantity : price}” ${fault.message}`);
    else if (currency && isInOtherCurrency(currency, price))
      refuse(`“${price}” is not in ${currency}, as all in this pipeline`);
    else if (currency !== storedCurrency && price === stored)
      refuse(`write “${price}” in ${currency}, as all in this pipeline, such as “${currency} ${price}”`);
    else lines.push({ ...given, id: known ?? newProduct(reading, currency, product, given.price) });
  }
  const { add = [], update = [] } = Object.groupBy(lines, ({ id }) => (before.has(id) ? 'update' : 'add'));
  return { lines, patch: { add, remove, update } };
}

function isInOtherCurrency(currency: string, price: string): boolean {
  const [sign = ''] = /[A-Z]{0,3}\p{Sc}|[A-Z]{3}/u.exec(price) ?? [];
  return sign !== currency && !money(0, currency).includes(sign);
}

function newProduct(reading: Reading, currency: string | undefined, name: string, agreed: number): string {
  // The product of amounts is no product to offer.
  const ofKind = name === amountName ? { price: 0, active: false } : { price: agreed };
  return add(reading, '/products', name, { name, ...ofKind, unit: 'piece', ...(currency && { currency }) });
}

const maxAlikeShown = 10;

const maxPicked = maxNames * maxAlikeShown;

/** Maximum number of contacts with the words of a name among which the contacts with exactly this name are looked for. */
const maxSearched = 100;

/**
 * Finds the contacts that a form names or ticks. A name is that of a contact, or its e-mail address, of which the newest
 * contact is taken. If not exactly one contact has a name, the user ticks one of `alike`.
 */
async function contactsIn(request: FastifyRequest, fields: Fields) {
  const ticked = idsIn(fields, 'contact', maxPicked);
  const ids = new Set(ticked);
  const names = [...new Set(text(fields, 'contacts').split(/[,;\n]/))].map((one) => one.trim()).filter(Boolean);
  const alike = new Map<string, Contact>();
  const faults: Fault[] = [];
  const refuse = (message: string) => faults.push({ path: '/contacts', message });
  if (names.length > maxNames) refuse(`at most ${maxNames} at once`);
  for (const name of names.slice(0, maxNames)) {
    const isAddress = name.includes('@');
    const filters = isAddress ? { work_email: name } : { search: name };
    const paginate = { limit: isAddress ? 1 : maxSearched };
    const { rows } = await ask(request, listContacts, { filters, paginate });
    const same = rows.filter((one) => isAddress || fold(nameOfContact(one)) === fold(name));
    const meant = same.length > 0 ? same : rows;
    if (same.length === 1) ids.add(same[0]!.id);
    else if (meant.length === 0) refuse(`there is no contact “${name}”`);
    else if (!meant.some(({ id }) => ticked.includes(id))) {
      for (const one of meant.slice(0, maxAlikeShown)) alike.set(one.id, one);
      refuse(`tick who is meant by “${name}”`);
    }
  }
  return { ids: [...ids], alike: [...alike.values()], faults };
}

async function opportunityControls(form: EditForm<Opportunity>, request: FastifyRequest): Promise<Html> {
  const { stored, sent, faults, isConflict } = form;
  const draft = sent ?? (stored ? await draftOf(request, stored) : await blankDraft(request));
  const [pipelines, users, products, present, contacts, { alike }] = await Promise.all([
    pipelinesFor(request, stored?.stage_id),
    usersOf(request),
    ask(request, listProducts, { filters: { active: true }, paginate: { limit: maxShown } }),
    search(request, findContacts, stored?.contacts_ids.slice(0, maxShown) ?? []),
    search(request, findContacts, idsIn(draft, 'contact', maxPicked)),
    contactsIn(request, draft),
  ]);
  const ticks = (name: string, offered: readonly Contact[]): Html[] => {
    const ticked = idsIn(draft, name, maxPicked);
    return offered.map((one) => {
      const { job_title, company, work_email, phone_numbers, location_locality } = one;
      const known = [nameOfContact(one), job_title, company.company_name, work_email, location_locality];
      const label = [...known, ...phone_numbers.slice(0, 1).map(phoneNumber)].filter(Boolean).join(', ');
      return tick('checkbox', [name, one.id], html`${label}`, ticked.includes(one.id));
    });
  };
  const theirs = isConflict && stored && sent ? differing(await draftOf(request, stored), sent) : {};
  const { input, area, choice } = controlsFor(draft, faults, theirs, ['name']);
  const stages = pipelines.flatMap(({ name, currency, stages }) =>
    stages.map(({ id, name: stage }): Choice => [id, pipelines.length > 1 ? `${name}, ${currency}: ${stage}` : stage]),
  );
  const stage = pipelines.flatMap((one) => one.stages).find(({ id }) => id === stored?.stage_id);
  const [due, other] = stage && closingField(stage) === 'close_date' ? dateFields.toReversed() : dateFields;
  const dateInput = (name: (typeof dateFields)[number]): Html => input(name, words[name], { type: 'date' });
  const currencies = new Set(pipelines.map(({ currency }) => currency));
  const levels = priorities.map((one) => [one, priorityWords[one].word] as const);
  const owners = userChoices(users, text(draft, 'user_id_assigned')).slice(1);
  const amountHint = `In ${[...currencies].join(' or ')}. The products below are added to it.`;
  const people = [...contacts, ...alike];
  const more = html`<div class="columns">
      !${choice('priority', words.priority, levels)} !${when(due === 'close_date', dateInput(other))}
    </div>
    !${area('description', words.description)}`;
  const isMore =
    text(draft, 'priority') !== 'NONE' || text(draft, 'description') || faults['description'] || faults[other];
  return html`!${group(
      'Opportunity',
      sideBySide(
        input('name', words.name),
        input('amount', amountName, { hint: amountHint, more: 'inputmode="decimal" autocomplete="off"' }),
        choice('stage_id', words.stage_id, stages),
        dateInput(due),
        choice('user_id_assigned', words.user_id_assigned, owners),
      ),
    )}
    !${group(
      'With whom',
      html`!${sideBySide(
        input('company', words.company_id, { hint: 'A new name makes a company.', more: companySuggestions }),
        input('contacts', 'Add contacts', { hint: 'Names or e-mails, with commas.', more: contactSuggestions }),
      )}
      !${when(people.length > 0, html`<p class="row">!${ticks('contact', people)}</p>`)}
      !${when(present.length > 0, choices('Contacts to take out', ticks('remove', present)))}`,
    )}
    !${card(folded('Priority and description', more, isMore))}
    !${card(
      folded(
        words.details,
        html`!${faultText('products', faults)} !${productTable(request, draft, form)}`,
        rowsOf(draft).length > 0 || faults['products'] || rowAct(request),
      ),
    )}
    <datalist id="products">
      !${products.rows.map((one) => option(one.name, money(one.price, one.currency), ''))}
    </datalist>`;
}

function productTable(request: FastifyRequest, draft: Fields, { stored, isConflict }: EditForm<Opportunity>): Html {
  const names = new Map(stored?.details.map(({ product_id, name }) => [product_id, name]));
  // Others have taken out what the form knows by its id only.
  const isThere = (product: string): boolean => names.has(product) || canonicalId(product) === undefined;
  const input = (part: keyof Row, label: string, more: Html) => (row: Row, i: number) =>
    textInput(html`name="${part}" aria-label="${label} of line ${i + 1}" autocomplete="off" !${more}`, row[part]);
  const name = input('product', 'Product', 'list="products" maxlength="255" placeholder="one of yours, or a new one"');
  const quantity = (none: string) => input('quantity', 'Quantity', html`inputmode="numeric" placeholder="${none}"`);
  const known = ({ product }: Row): Html => html`!${hidden({ product })}${names.get(product)}`;
  const columns: readonly Column<Row>[] = [
    ['Product', (row, i) => (names.has(row.product) ? known(row) : name(row, i)), 'long'],
    ['Price', input('price', 'Price', 'inputmode="decimal" placeholder="as listed"')],
    ['Quantity', (row, i) => quantity(names.has(row.product) ? 'none: removed' : '1')(row, i)],
  ];
  return rowEditor(request, {
    label: 'Products',
    noun: 'product',
    columns,
    rows: rowsIn(draft, rowParts, maxRows).filter(({ product }) => !isConflict || isThere(product)),
    blank: { product: '', price: '', quantity: '' },
    most: maxRows,
    // A stored product without a row in the form stays.
    takenOut: (row) => (names.has(row.product) ? { ...row, quantity: '' } : undefined),
  });
}
