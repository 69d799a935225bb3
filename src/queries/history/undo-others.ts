import type { LockedId, Transaction } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import { liveLists } from '../../filters/live.ts';
import { opportunityFields, type Line, type OpportunityPatch } from '../../schemas/opportunities.ts';
import { productFields } from '../../schemas/products.ts';
import { deleteList } from '../crm/lists.ts';
import { withLastWrites } from '../records/last-writes.ts';
import { lockReferences, type Reference } from '../records/references.ts';
import { addContacts } from '../sales/opportunity-contacts.ts';
import { addLines, totalOfLines } from '../sales/opportunity-lines.ts';
import { deleteOpportunity, findOpportunities, updateOpportunity } from '../sales/opportunities.ts';
import { deleteProduct, findProducts, updateProduct } from '../sales/products.ts';
import { findWrittenSince, type Effect, type Values } from './effects.ts';
import { outcomeOf, revert, type Outcome } from './revert.ts';

/** How one kind of record, of which a customer has few, is taken back, one by one. */
interface Others {
  /** Returns the record's members as the journal names them. Undefined: there is none. */
  find: (sql: Transaction, customerId: string, id: string) => Promise<Values | undefined>;
  remove: (sql: Transaction, customerId: string, id: string) => Promise<void>;
  /** @throws DomainError `not_found` if something to which the columns refer is gone */
  update: (sql: Transaction, customerId: string, id: string, columns: Values, current: Values) => Promise<void>;
  /** Returns false if it cannot stand again, because something that it needs is gone. */
  restore: (sql: Transaction, customerId: string, id: string, values: Values) => Promise<boolean>;
}

/** Undoes what a change has done with a list, product or opportunity. */
export async function undoOther(sql: Transaction, customerId: string, effect: Effect): Promise<Outcome> {
  const { id, kind, noun, before } = effect;
  const others = kinds[noun as keyof typeof kinds];
  const current = await others.find(sql, customerId, id);
  if (kind === 'deleted') {
    if (current) return { status: 'skipped' };
    if (!(await others.restore(sql, customerId, id, before))) return { status: 'failed', reason: 'gone' };
    await withLastWrites(sql, customerId, async (last) => last.created(noun, { id }, { restored: true }));
    return { status: 'succeeded' };
  }
  if (!current) return { status: kind === 'updated' ? 'failed' : 'skipped', reason: 'gone' };
  if (kind === 'created') {
    const written = await findWrittenSince(sql, customerId, [effect], new Map([[id, current]]));
    if (written.size > 0) return { status: 'skipped', reason: 'changed_since' };
    await others.remove(sql, customerId, id);
    return { status: 'succeeded' };
  }
  const reverted = revert(current, effect);
  if (reverted.restored.length === 0) return outcomeOf(reverted);
  try {
    await others.update(sql, customerId, id, reverted.columns, current);
  } catch (error) {
    // Nothing was written: what is missing is found first.
    if (!(error instanceof DomainError) || error.code !== 'not_found') throw error;
    return { status: 'skipped', reason: 'gone', restored: [], kept: [...reverted.kept, ...reverted.restored] };
  }
  return outcomeOf(reverted);
}

const lists: Others = {
  find: async (sql, customerId, id) => {
    const [list] = await sql<Values[]>`
      select
        l.name, l.description, l.rules,
        case when l.rule_count > 0 then 'RULES' else l.source end as source
      from ${liveLists(sql, customerId)}
        and l.id = ${id}
      for no key update`;
    return list;
  },
  remove: (sql, customerId, id) => deleteList(sql, customerId, id),
  update: async (sql, customerId, id, columns, current) => {
    const { name, description, rules } = { ...current, ...columns };
    await sql`
      update lists
      set
        name = ${name as string}, description = ${description as string}, rules = ${sql.json(rules as never)},
        counted_at = null, updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}`;
    await withLastWrites(sql, customerId, async (last) =>
      last.updated('list', { id }, current, { ...current, ...columns }),
    );
  },
  restore: async (sql, customerId, id) => {
    const { count } = await sql`
      update lists
      set deleted_at = null, counted_at = null, updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}`;
    return count > 0;
  },
};

const products: Others = {
  find: async (sql, customerId, id) => {
    await sql`select id from products where customer_id = ${customerId} and id = ${id} for update`;
    const [product] = await findProducts(sql, customerId, [id]);
    return product;
  },
  remove: (sql, customerId, id) => deleteProduct(sql, customerId, id),
  update: (sql, customerId, id, columns) => updateProduct(sql, customerId, id, columns),
  // Its row is still there if opportunities use it.
  restore: async (sql, customerId, id, values) => {
    const columns = pick(values, productFields);
    await sql`
      insert into products ${sql({ customer_id: customerId, id, ...columns } as never)}
      on conflict (customer_id, id) do update
      set deleted_at = null, updated_at = excluded.updated_at`;
    return true;
  },
};

const opportunities: Others = {
  find: async (sql, customerId, id) => {
    await sql`select id from opportunities where customer_id = ${customerId} and id = ${id} for update`;
    const [opportunity] = await findOpportunities(sql, customerId, [id]);
    return opportunity;
  },
  remove: (sql, customerId, id) => deleteOpportunity(sql, customerId, id),
  update: async (sql, customerId, id, { details, price: _sum, contacts_ids, ...columns }, current) => {
    const patch: OpportunityPatch = columns;
    if (contacts_ids) patch.contacts_ids = await presentOf(sql, customerId, 'contact', contacts_ids as string[]);
    if (details) patch.products = linesPatch(current['details'] as Detail[], details as Detail[]);
    await updateOpportunity(sql, customerId, id, patch);
  },
  restore: async (sql, customerId, id, values) => {
    const { contacts_ids = [], details = [] } = values as { contacts_ids?: string[]; details?: Detail[] };
    const columns = {
      description: '',
      company_id: null,
      source_id: null,
      ...pick(values, opportunityFields),
    } as Values;
    const { stage_id, user_id_assigned, company_id } = columns as Record<string, string>;
    // In the order of references.ts.
    const wanted: Reference[] = [
      ...(company_id ? [{ noun: 'company' as const, id: company_id, path: '' }] : []),
      ...contacts_ids.map((contact) => ({ noun: 'contact' as const, id: contact, path: '' })),
      { noun: 'user', id: user_id_assigned!, path: '' },
      { noun: 'stage', id: stage_id!, path: '' },
    ];
    const missing = new Set((await lockReferences(sql, customerId, wanted)).map((one) => one.id));
    if (missing.has(stage_id!) || missing.has(user_id_assigned!)) return false;
    if (company_id && missing.has(company_id)) columns['company_id'] = null;
    const [made] = await sql<[{ id: LockedId }]>`
      insert into opportunities ${sql({ customer_id: customerId, id, ...columns } as never)}
      returning id`;
    const contacts = contacts_ids.filter((contact) => !missing.has(contact));
    if (contacts.length > 0) await addContacts(sql, customerId, made.id, contacts);
    // Rows of deleted products stay while an opportunity uses them.
    const present = await sql<{ id: string }[]>`
      select id
      from products
      where customer_id = ${customerId}
        and id = any(${details.map(({ product_id }) => product_id)}::uuid[])
      order by id
      for key share`;
    const known = new Set(present.map((product) => product.id));
    const lines = details.filter(({ product_id }) => known.has(product_id)).map(lineOf);
    if (lines.length > 0) await addLines(sql, customerId, { id: made.id, stage_id: stage_id! }, lines);
    await sql`
      update opportunities
      set price = ${totalOfLines(sql, customerId, id)}
      where customer_id = ${customerId}
        and id = ${id}`;
    return true;
  },
};

const kinds = { list: lists, product: products, opportunity: opportunities };

/** A line of an opportunity, as it is shown. */
interface Detail {
  product_id: string;
  price: number;
  quantity: number;
}

const lineOf = ({ product_id, price, quantity }: Detail): Line => ({ id: product_id, price, quantity });

/** Returns what makes some lines of these. */
function linesPatch(current: readonly Detail[], wanted: readonly Detail[]): NonNullable<OpportunityPatch['products']> {
  const [now, then] = [current, wanted].map((details) => new Set(details.map(({ product_id }) => product_id)));
  return {
    remove: current.filter(({ product_id }) => !then!.has(product_id)).map(({ product_id }) => product_id),
    update: wanted.filter(({ product_id }) => now!.has(product_id)).map(lineOf),
    add: wanted.filter(({ product_id }) => !now!.has(product_id)).map(lineOf),
  };
}

const pick = (values: Values, names: readonly string[]): Values =>
  Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])));

async function presentOf(
  sql: Transaction,
  customerId: string,
  noun: Reference['noun'],
  ids: readonly string[],
): Promise<string[]> {
  const missing = await lockReferences(
    sql,
    customerId,
    ids.map((id) => ({ noun, id, path: '' })),
  );
  const gone = new Set(missing.map(({ id }) => id));
  return ids.filter((id) => !gone.has(id));
}
