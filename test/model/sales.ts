import { createRecord, writeRecord, type Caller } from './caller.ts';
import { patched, type Json, type Line, type Opportunity, type Product } from './model.ts';
import { someOf } from './random-values.ts';
import { checkOpportunity } from './shown.ts';

/** Operations on products and opportunities. */

/** Returns an amount in ten-thousandths, often with decimals that binary fractions cannot hold. */
const amount = ({ random }: Caller): bigint => random.pick([0n, 1n, 333n, 199_900n, 10_000n, 123_456_789n]);

const toNumber = (tenThousandths: bigint): number => Number(tenThousandths) / 10_000;

export async function createProduct(caller: Caller): Promise<void> {
  if (caller.model.products.size > 12) return deleteProduct(caller);
  const currency = caller.random.pick(['eur', 'GBP', undefined]);
  const body = {
    name: ` ${caller.mark()} `,
    price: toNumber(amount(caller)),
    unit: 'piece',
    ...(currency === undefined ? {} : { currency }),
    ...(caller.chance(30) ? { active: false } : {}),
  };
  await createRecord(caller, '/products', body, () => {
    const fields = patched({ currency: 'USD', active: true }, body);
    const record: Product = { id: undefined, fields, history: [] };
    caller.model.products.add(record);
    return { status: 'created', record };
  });
}

export async function changeProduct(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.products);
  if (!record) return createProduct(caller);
  const body = {
    ...(caller.chance(50) ? { price: toNumber(amount(caller)) } : {}),
    ...(caller.chance(50) ? { name: caller.mark() } : {}),
  };
  await writeRecord(caller, 'PATCH', '/products', { record, body }, () => {
    record.fields = patched(record.fields, body);
  });
}

async function deleteProduct(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.products)!;
  await writeRecord(caller, 'DELETE', '/products', { record }, () => void caller.model.products.delete(record));
}

const wireLine = (caller: Caller, { product, price, quantity }: Line): Json => ({
  id: caller.idOf(product),
  price: toNumber(price),
  quantity,
});

const someLines = (caller: Caller, except: readonly Line[] = []): Line[] => {
  const used = new Set(except.map(({ product }) => product));
  const free = [...caller.model.products].filter((product) => !used.has(product));
  return someOf(caller.random, free, 4).map((product) => ({
    product,
    price: amount(caller),
    quantity: 1 + caller.random.below(1_000),
  }));
};

/** Returns the members that create and PATCH have in common, and what they mean in the model. */
function draft(caller: Caller): { body: Json; meant: Pick<Opportunity, 'fields' | 'contacts' | 'company'> } {
  const { random, model } = caller;
  const contacts = someOf(random, [...model.contacts], 5);
  const company = caller.pick(model.companies) ?? null;
  const fields = {
    name: caller.mark(),
    stage_id: random.pick(caller.customer.stages).id,
    user_id_assigned: random.pick(caller.customer.users),
    priority: random.pick(['URGENT', 'HIGHT', 'NONE']),
    estimated_closing_date: '2026-03-14T09:26:53.589Z',
    close_date: '2026-06-30T00:00:00.000Z',
  };
  const body = {
    ...fields,
    stage_id: fields.stage_id.toUpperCase(),
    contacts_ids: contacts.flatMap(({ id }) => (caller.chance(20) ? [id, id!.toUpperCase()] : [id])),
    ...(company ? { company_id: caller.idOf(company) } : {}),
  };
  return { body, meant: { fields, contacts, company } };
}

export async function createOpportunity(caller: Caller): Promise<void> {
  if (caller.model.opportunities.size > 40) return deleteOpportunity(caller);
  const { body, meant } = draft(caller);
  const lines = someLines(caller);
  const sent = { ...body, products: lines.map((line) => wireLine(caller, line)) };
  await createRecord(caller, '/opportunities', sent, () => {
    const fields = { ...meant.fields, description: '', source_id: null };
    const record: Opportunity = { ...meant, id: undefined, fields, lines, history: [] };
    caller.model.opportunities.add(record);
    return { status: 'created', record };
  });
}

export async function changeOpportunity(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.opportunities);
  if (!record) return createOpportunity(caller);
  const { body: all, meant } = draft(caller);
  const members = Object.keys(all).filter(() => caller.chance(40));
  const { products, lines } = changedLines(caller, record.lines);
  const given = Object.fromEntries(members.map((name) => [name, all[name]]));
  const body: Json = { ...given, ...(products ? { products } : {}) };
  await writeRecord(caller, 'PATCH', '/opportunities', { record, body }, () => {
    const fields = Object.entries(meant.fields).filter(([name]) => members.includes(name));
    record.fields = { ...record.fields, ...Object.fromEntries(fields) };
    if (members.includes('contacts_ids')) record.contacts = meant.contacts;
    if (members.includes('company_id')) record.company = meant.company;
    record.lines = lines;
  });
}

/** Returns a change of lines, and the lines after it: removed, updated and added ones. */
function changedLines(caller: Caller, lines: readonly Line[]): { products?: Json; lines: Line[] } {
  if (caller.chance(40)) return { lines: [...lines] };
  const removed = new Set(lines.filter(() => caller.chance(20)));
  const updated = new Map<Line, Line>();
  for (const line of lines)
    if (!removed.has(line) && caller.chance(40))
      updated.set(line, { ...line, price: amount(caller), quantity: 1 + caller.random.below(50) });
  const added = someLines(caller, lines);
  const products = {
    ...(removed.size > 0 ? { remove: [...removed].map(({ product }) => caller.idOf(product)) } : {}),
    ...(updated.size > 0 ? { update: [...updated.values()].map((line) => wireLine(caller, line)) } : {}),
    add: added.map((line) => wireLine(caller, line)),
  };
  const left = lines.filter((line) => !removed.has(line)).map((line) => updated.get(line) ?? line);
  return { products, lines: [...left, ...added] };
}

async function deleteOpportunity(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.opportunities)!;
  checkOpportunity(record, (await caller.client.send('GET', `/opportunities/${caller.idOf(record)}`)).body);
  await writeRecord(
    caller,
    'DELETE',
    '/opportunities',
    { record },
    () => void caller.model.opportunities.delete(record),
  );
}
