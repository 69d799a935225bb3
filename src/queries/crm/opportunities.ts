import type { LockedId, Transaction, Queryable } from '../../database/db.ts';
import { conflict, validationFailed, type Fault } from '../../errors.ts';
import { Opportunity, opportunityFields, type OpportunityCreate } from '../../schemas/opportunities.ts';
import type { Detail, Line, LinesPatch, OpportunityPatch } from '../../schemas/opportunities.ts';
import { blankOf } from '../../schemas/wire.ts';
import { opportunitySource, lookUp, canonicalInstant } from '../../filters/columns.ts';
import { countClauses } from '../../filters/page-clauses.ts';
import { parseRecordQuery } from '../../filters/parse.ts';
import { recorder, run, constant, type FragmentMaker } from '../../filters/sql.ts';
import { opportunityFileFields } from '../../schemas/files.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import { normalise } from '../../text/fold.ts';
import { assignCompany } from './contacts.ts';
import { countMatches, recordReads } from './record-pages.ts';
import { isSame } from '../records/journal.ts';
import { errorOfMissing, lockReferencesOf, type Reference } from '../records/references.ts';
import { addEvents, opportunityTable, setUnchanged, eventSubjectOf, writeItems } from '../records/batch-rows.ts';
import type { WrittenTable } from '../records/batch-rows.ts';
import type { Item } from '../records/batches.ts';
import { addDeletions, recordWrites, type Writing } from '../records/record-writes.ts';
import { detachActivities } from './links.ts';
import { findProducts } from './products.ts';

type GivenLines = LinesPatch | Line[] | undefined;

function newLines(given: GivenLines): { line: Line; path: string }[] {
  const [lines, path] = Array.isArray(given) ? [given, '/products'] : [given?.add ?? [], '/products/add'];
  return lines.map((line, index) => ({ line, path: `${path}/${index}/id` }));
}

function findAbsentLines(details: readonly Detail[], given: GivenLines): { noun: string; path: string }[] {
  if (!given || Array.isArray(given)) return [];
  const { remove = [], update = [] } = given;
  const present = new Set(details.map(({ product_id }) => product_id));
  const named = [
    ...remove.map((id, index) => ({ id, path: `/products/remove/${index}` })),
    ...update.map(({ id }, index) => ({ id, path: `/products/update/${index}/id` })),
  ];
  return named.filter(({ id }) => !present.has(id)).map(({ path }) => ({ noun: 'product in this opportunity', path }));
}

const alreadyThere = 'is already in this opportunity: use products.update to change its line';

/**
 * Returns the product lines that an opportunity has after a write. New lines do not have their product's name yet.
 * @param given all lines, or changes that `findAbsentLines` has checked
 * @throws DomainError `conflict` with the JSON pointer of every added product that has a line; `validation_failed` if a
 * product occurs twice
 */
function linesAfter(details: readonly Detail[], given: GivenLines): Detail[] {
  if (!given) return [...details];
  const present = new Map(details.map((detail) => [detail.product_id, detail]));
  const { remove = [], update = [] } = Array.isArray(given) ? { remove: [...present.keys()] } : given;
  const changes = new Map(update.map(({ id, ...change }) => [id, change]));
  const removed = new Set(remove);
  const kept = details.filter(({ product_id }) => !removed.has(product_id));
  const added = newLines(given);
  const taken = new Set(kept.map(({ product_id }) => product_id));
  const faultsOf = (message: string, isFault: (id: string) => boolean): Fault[] =>
    added.flatMap(({ line, path }) => (isFault(line.id) ? [{ path, message }] : []));
  const there = faultsOf(alreadyThere, (id) => taken.has(id));
  if (there.length > 0) throw conflict('A product to add is already in this opportunity', there);
  // Ids are compared by the schema, but two external ids can be of one product after a merge of theirs.
  const twice = faultsOf('is named twice', (id) => taken.size === taken.add(id).size);
  if (twice.length > 0) throw validationFailed(twice);
  return [
    ...kept.map((detail) => withTotal({ ...detail, ...changes.get(detail.product_id) })),
    ...added.map(({ line: { id: product_id, price, quantity } }) =>
      withTotal({ product_id, name: present.get(product_id)?.name ?? '', price, quantity }),
    ),
  ];
}

const withTotal = (line: Omit<Detail, 'total'>): Detail => ({ ...line, total: sumOf([line]) });

const maxSum = 10n ** 15n;

/**
 * Returns the exact sum of price × quantity.
 * @throws DomainError `validation_failed` if it is 10^11 or more
 */
export function sumOf(lines: readonly Pick<Detail, 'price' | 'quantity'>[]): number {
  // In ten-thousandths. A price has at most 4 decimals.
  const sum = lines.reduce((all, { price, quantity }) => all + BigInt(Math.round(price * 1e4)) * BigInt(quantity), 0n);
  if (sum >= maxSum)
    throw validationFailed([{ path: '/products', message: 'must have a total of less than 100000000000' }]);
  return Number(`${sum / 10_000n}.${String(sum % 10_000n).padStart(4, '0')}`);
}

export interface Parts {
  id: LockedId;
  stage_id: string;
  contacts_ids: readonly string[];
  details: readonly Pick<Detail, 'product_id' | 'price' | 'quantity'>[];
}

export async function setParts(sql: Transaction, customerId: string, all: readonly Parts[]): Promise<void> {
  if (all.length === 0) return;
  await removeParts(
    sql,
    customerId,
    all.map(({ id }) => id),
  );
  const contacts = all.flatMap(({ id, contacts_ids }) => contacts_ids.map((contact, i) => ({ id, contact, i: i + 1 })));
  await sql`
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, given.opportunity_id, given.contact_id, given.position
    from unnest(
      ${contacts.map(({ id }) => id)}::uuid[],
      ${contacts.map(({ contact }) => contact)}::uuid[],
      ${contacts.map(({ i }) => i)}::integer[]
    ) as given (opportunity_id, contact_id, position)`;
  const lines = all.flatMap(({ id, stage_id, details }) =>
    details.map((line, i) => ({ ...line, id, stage_id, i: i + 1 })),
  );
  await sql`
    insert into opportunity_lines (customer_id, opportunity_id, product_id, pipeline_id, position, price, quantity)
    select s.customer_id, line.opportunity_id, line.product_id, s.pipeline_id, line.position, line.price, line.quantity
    from stages s
    join unnest(
      ${lines.map(({ id }) => id)}::uuid[],
      ${lines.map(({ stage_id }) => stage_id)}::uuid[],
      ${lines.map(({ product_id }) => product_id)}::uuid[],
      ${lines.map(({ i }) => i)}::integer[],
      ${lines.map(({ price }) => price)}::numeric[],
      ${lines.map(({ quantity }) => quantity)}::integer[]
    ) as line (opportunity_id, stage_id, product_id, position, price, quantity)
      on line.stage_id = s.id
    where s.customer_id = ${customerId}
    order by line.product_id`; // in the order in which a deletion locks products
}

async function removeParts(sql: Transaction, customerId: string, ids: readonly LockedId[]): Promise<void> {
  await sql`
    delete from opportunity_lines
    where customer_id = ${customerId}
      and opportunity_id = any(${ids as LockedId[]}::uuid[])`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and opportunity_id = any(${ids as LockedId[]}::uuid[])`;
}

type OpportunityColumns = Pick<Opportunity, (typeof opportunityFields)[number] | 'price' | 'contacts_ids' | 'details'>;
type OpportunityItem = Item<OpportunityColumns>;

/**
 * SQL columns of an opportunity as responses show them. Lines show deleted products, too. The id of a deleted company
 * is null.
 */
const projection = (sql: FragmentMaker, customerId: string) => sql`
  ${constant(sql, `o.id, ${opportunityFields.map((name) => (name === 'company_id' ? 'co.id as company_id' : `o.${name}`)).join(', ')}`)},
  o.price,
  array(
    select m.contact_id
    from opportunity_contacts m
    where m.customer_id = ${customerId}::uuid
      and m.opportunity_id = o.id
    order by m.position
  ) as contacts_ids,
  (
    select coalesce(json_agg(json_build_object(
      'product_id', l.product_id,
      'name', p.name,
      'price', l.price,
      'quantity', l.quantity,
      'total', l.price * l.quantity
    ) order by l.position), '[]')
    from opportunity_lines l
    ${lookUp(sql, sql`select p.name from products p where p.customer_id = ${customerId}::uuid and p.id = l.product_id`, 'p')}
    where l.customer_id = ${customerId}::uuid
      and l.opportunity_id = o.id
  ) as details,
  o.created_at,
  o.updated_at`;

export const {
  find: findOpportunities,
  list: listOpportunities,
  export: exportOpportunities,
} = recordReads<Opportunity>({
  source: opportunitySource,
  projection,
  // With the lines as requests have them.
  exported: (sql, customerId) => sql`
    ${projection(sql, customerId)},
    (
      select coalesce(json_agg(json_build_object(
        'id', l.product_id, 'price', l.price, 'quantity', l.quantity
      ) order by l.position), '[]')
      from opportunity_lines l
      where l.customer_id = ${customerId}::uuid
        and l.opportunity_id = o.id
    ) as products`,
  forPeople: (sql, customerId) => sql`
    ${projection(sql, customerId)},
    (
      select pl.name
      from stages s
      join pipelines pl on pl.customer_id = ${customerId}::uuid and pl.id = s.pipeline_id
      where s.customer_id = ${customerId}::uuid
        and s.id = o.stage_id
    ) as pipeline_name,
    (select s.name from stages s where s.customer_id = ${customerId}::uuid and s.id = o.stage_id) as stage_name,
    coalesce(co.company_name, '') as company_name,
    array(
      select coalesce(nullif(trim(c.first_name || ' ' || c.last_name), ''), c.work_email, '')
      from opportunity_contacts m
      join contacts c on c.customer_id = ${customerId}::uuid and c.id = m.contact_id
      where m.customer_id = ${customerId}::uuid
        and m.opportunity_id = o.id
      order by m.position
    ) as contact_names,
    (
      select u.email
      from users u
      where u.customer_id = ${customerId}::uuid
        and u.id = o.user_id_assigned
    ) as assigned_email,
    array(
      select l.quantity || ' × ' || p.name
      from opportunity_lines l
      join products p on p.customer_id = ${customerId}::uuid and p.id = l.product_id
      where l.customer_id = ${customerId}::uuid
        and l.opportunity_id = o.id
      order by l.position
    ) as product_names`,
  fields: opportunityFileFields,
  title: 'Opportunities',
});

export const countOpportunities = (sql: Queryable, customerId: string, filters: GivenFilters): Promise<number> =>
  countMatches(sql, parseRecordQuery(opportunitySource, customerId, { filters }));

export function sumByStage(
  sql: Queryable,
  customerId: string,
  filters: GivenFilters,
): Promise<{ stage_id: string; total: number; price: number }[]> {
  const { from, where } = countClauses(recorder, parseRecordQuery(opportunitySource, customerId, { filters }));
  return run(
    sql,
    recorder`select o.stage_id, count(*) as total, sum(o.price) as price from ${from} where ${where} group by o.stage_id`,
  );
}

/**
 * Returns the references of an item to records that do not exist. A line that the opportunity already has may keep a
 * deleted product.
 */
function unknownOf(item: OpportunityItem, missing: readonly Reference[]): { noun: string; path: string }[] {
  const details = item.stored?.details ?? [];
  const present = new Set(details.map(({ product_id }) => product_id));
  const given = item.body['products'] as GivenLines;
  const isKept = ({ noun, id }: Reference) => noun === 'product' && Array.isArray(given) && present.has(id);
  return [...missing.filter((one) => !isKept(one)), ...findAbsentLines(details, given)];
}

const blank: OpportunityColumns = {
  ...blankOf(Opportunity, [...opportunityFields, 'contacts_ids', 'details']),
  priority: 'NONE',
  price: 0,
};

function patched({ products, contacts_ids, ...fields }: OpportunityPatch, stored = blank): OpportunityColumns {
  const details = linesAfter(stored.details, products);
  return {
    ...stored,
    ...asKept(fields),
    ...(contacts_ids && { contacts_ids: [...new Set(contacts_ids)] }),
    details,
    price: sumOf(details),
  };
}

const rowColumns = [...opportunityFields, 'price'] as const;

const written: WrittenTable<Pick<OpportunityColumns, (typeof rowColumns)[number]>> = {
  name: 'opportunities',
  columns: rowColumns,
  unassigned: ['company_id'],
  computedAssignments: assignCompany,
};

async function write({ sql, customerId, items, deferred }: Writing<OpportunityColumns>): Promise<void> {
  setUnchanged(items);
  const { created, changed } = await writeItems(
    sql,
    customerId,
    written,
    items,
    ({ contacts_ids: _contacts, details: _details, ...columns }) => columns,
  );
  const parts = [...created, ...changed.filter(({ stored, columns }) => !hasSameParts(stored!, columns!))].map(
    (item) => ({
      ...item.columns!,
      id: eventSubjectOf(item).id,
    }),
  );
  await setParts(sql, customerId, parts);
  await setNames(sql, customerId, changed);
  addEvents(deferred, 'opportunity', { created, changed });
}

const hasSameParts = (stored: OpportunityColumns, columns: OpportunityColumns): boolean =>
  (['stage_id', 'contacts_ids', 'details'] as const).every((name) => isSame(stored[name], columns[name]));

async function setNames(sql: Transaction, customerId: string, items: readonly OpportunityItem[]): Promise<void> {
  const unnamed = items.flatMap(({ columns }) => columns!.details.filter(({ name }) => name === ''));
  const found = await findProducts(
    sql,
    customerId,
    unnamed.map(({ product_id }) => product_id),
  );
  const names = new Map(found.map(({ id, name }) => [id, name]));
  for (const detail of unnamed) detail.name = names.get(detail.product_id)!;
}

/**
 * Functions that write opportunities with their contacts and lines. An item fails with `not_found` and the JSON pointer
 * of every unknown id in its body, and with `conflict` if a product to add already has a line.
 */
export const opportunityWrites = recordWrites<OpportunityColumns, Opportunity, OpportunityCreate, OpportunityPatch>({
  ...opportunityTable,
  lock: async (sql, customerId, ids, operation) => {
    const rows = await sql<{ id: LockedId; company_id: string | null }[]>`
      select id, company_id
      from opportunities
      where customer_id = ${customerId}
        and id = any(${ids}::uuid[])
      order by id
      for update`;
    const found = new Map((await findOpportunities(sql, customerId, ids)).map((one) => [one.id, one]));
    return rows.map(({ id, company_id }) => {
      const { created_at: _created, updated_at: _updated, ...columns } = found.get(id)!;
      // The journal keeps the id of a deleted company, too: its deletion may be undone before that of the opportunity.
      return { ...columns, id, ...(operation === 'delete' && { company_id }) };
    });
  },
  find: findOpportunities,
  prepare: async (writing) => {
    const { sql, customerId, items } = writing;
    const missing = await lockReferencesOf(sql, customerId, items, referencesOf);
    return {
      errorOf: (item) => errorOfMissing(unknownOf(item, missing.get(item)!)),
      patched,
      write: () => write(writing),
    };
  },
  remove: async ({ sql, customerId, deferred }, removed) => {
    const ids = removed.map(({ id }) => id);
    if (ids.length === 0) return;
    await detachActivities(sql, customerId, 'opportunity', ids);
    await removeParts(sql, customerId, ids);
    await sql`
      delete from opportunities
      where customer_id = ${customerId}
        and id = any(${ids}::uuid[])`;
    addDeletions(deferred, 'opportunity', removed);
  },
});

export function referencesOf(body: OpportunityPatch): Reference[] {
  const { company_id, contacts_ids = [], user_id_assigned, stage_id, products } = body;
  return [
    ...(company_id ? [{ noun: 'company' as const, id: company_id, path: '/company_id' }] : []),
    ...contacts_ids.map((id, index) => ({ noun: 'contact' as const, id, path: `/contacts_ids/${index}` })),
    ...(user_id_assigned ? [{ noun: 'user' as const, id: user_id_assigned, path: '/user_id_assigned' }] : []),
    ...(stage_id ? [{ noun: 'stage' as const, id: stage_id, path: '/stage_id' }] : []),
    ...newLines(products).map(({ line: { id }, path }) => ({ noun: 'product' as const, id, path })),
  ];
}

function asKept(fields: Partial<OpportunityColumns>): Partial<OpportunityColumns> {
  const kept = normalise(fields);
  for (const name of ['estimated_closing_date', 'close_date'] as const)
    if (kept[name] !== undefined) kept[name] = canonicalInstant(kept[name]);
  return kept;
}
