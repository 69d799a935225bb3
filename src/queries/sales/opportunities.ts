import type { LockedId, Queryable, Transaction } from '../../database/db.ts';
import { DomainError, missingReferences } from '../../errors.ts';
import { fromOf, opportunitySource } from '../../filters/columns.ts';
import { lookUp } from '../../filters/look-up.ts';
import { countClauses } from '../../filters/paging/page-clauses.ts';
import { parseRecordQuery } from '../../filters/record-query.ts';
import { recorder, run } from '../../filters/sql-recorder.ts';
import { constant, type FragmentMaker } from '../../filters/sql.ts';
import { canonicalInstant } from '../../filters/values.ts';
import {
  opportunityFields,
  type Opportunity,
  type OpportunityCreate,
  type OpportunityPatch,
} from '../../schemas/opportunities.ts';
import { opportunityFileFields } from '../../schemas/files.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import { normalise } from '../../text/normalise.ts';
import { companyAfter } from '../crm/contacts.ts';
import { countMatches } from '../crm/record-pages.ts';
import { recordReads } from '../crm/record-reads.ts';
import { isSame } from '../events/changes.ts';
import { assignExternalIds } from '../records/batch-external-ids.ts';
import { canonicalOf, lockMatching, opportunityTable, readBatch, type BatchRecords } from '../records/batch-matches.ts';
import {
  addEvents,
  setColumns,
  setDeleted,
  setUnchanged,
  toldOf,
  writeItems,
  type WrittenTable,
} from '../records/batch-rows.ts';
import {
  alive,
  endIfAtomic,
  fail,
  openItems,
  outcomesOf,
  requireSingleMatch,
  singleWrites,
  withRepeats,
  type Batch,
  type Item,
  type Outcome,
  type ReadOutcome,
} from '../records/batches.ts';
import { lockBulk } from '../records/bulk-lock.ts';
import { findByIds, type FindRecords } from '../records/finders.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { lockReferences, lockReferencesOf, withReferredIds, type Reference } from '../records/references.ts';
import { detachActivities } from '../memberships/activity-links.ts';
import {
  findAbsentLines,
  linesAfter,
  newLines,
  removeParts,
  setParts,
  sumOf,
  type GivenLines,
} from './opportunity-lines.ts';
import { findProducts } from './products.ts';

/** What callers can set of an opportunity, and what follows from it. */
type OpportunityColumns = Pick<Opportunity, (typeof opportunityFields)[number] | 'price' | 'contacts_ids' | 'details'>;
type OpportunityItem = Item<OpportunityColumns>;

/** As the API returns it. A line has the name of its product, even if that is deleted. A deleted company is null. */
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

export const { list: listOpportunities, export: exportOpportunities } = recordReads<Opportunity>({
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
  fields: opportunityFileFields,
  title: 'Opportunities',
});

/** Returns the number of opportunities that match. */
export const countOpportunities = (sql: Queryable, customerId: string, filters: GivenFilters): Promise<number> =>
  countMatches(sql, parseRecordQuery(opportunitySource, customerId, { filters }));

/** Returns the number of the opportunities that match and the sum of their prices, by stage. */
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

/** In any order, without unknown ids. */
export const findOpportunities: FindRecords<Opportunity> = (sql, customerId, ids) =>
  findByIds(
    sql,
    ids,
    sql`
      select ${projection(sql, customerId)}
      from ${fromOf(sql, opportunitySource, customerId)}
      where o.customer_id = ${customerId}
        and o.id = wanted.id`,
  );

/**
 * Write one opportunity with its contacts and lines.
 * @throws DomainError `not_found`, with nothing written, with the JSON pointer of every id in the body that is not the
 * customer's; `conflict` if a product to add already has a line; `precondition_failed`
 */
export const {
  create: createOpportunity,
  update: updateOpportunity,
  remove: deleteOpportunity,
} = singleWrites<OpportunityCreate, OpportunityPatch>('opportunity', (...given) => writeOpportunityBatch(...given));

const opportunities: BatchRecords<OpportunityColumns, Opportunity> = {
  ...opportunityTable,
  lock: async (sql, customerId, ids, operation) => {
    const rows = await lockOpportunities(sql, customerId, ids);
    const found = new Map((await findOpportunities(sql, customerId, ids)).map((one) => [one.id, one]));
    return rows.map(({ id, company_id }) => {
      const { created_at: _created, updated_at: _updated, ...columns } = found.get(id)!;
      // The journal keeps the id of a deleted company, too: its deletion may be undone before that of the opportunity.
      return { ...columns, id, ...(operation === 'delete' && { company_id }) };
    });
  },
  find: findOpportunities,
};

export const lockOpportunities = (
  sql: Transaction,
  customerId: string,
  ids: string[],
): Promise<{ id: LockedId; company_id: string | null }[]> => sql<{ id: LockedId; company_id: string | null }[]>`
  select id, company_id
  from opportunities
  where customer_id = ${customerId}
    and id = any(${ids}::uuid[])
  order by id
  for update`;

/** Locks what the bodies of opportunities refer to. */
export async function lockReferred(sql: Transaction, customerId: string, bodies: Batch['items']): Promise<void> {
  const known = await withReferredIds(sql, customerId, { items: bodies });
  const references = known.flatMap((body) => (body instanceof DomainError ? [] : referencesOf(body)));
  await lockReferences(sql, customerId, references);
}

/** Writes a batch of opportunities, as `writeContactBatch` does contacts. */
export async function writeOpportunityBatch(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  last: LastWrites,
): Promise<Outcome[]> {
  if (!batch.single) await lockBulk(sql, customerId);
  return withRepeats(sql, last, async (attempt, own) => {
    const bodies = await withReferredIds(attempt, customerId, batch);
    const items = openItems<OpportunityColumns>({ ...batch, items: bodies }, canonicalOf(batch.match));
    const missing = await lockReferencesOf(attempt, customerId, items, referencesOf);
    await lockMatching(attempt, customerId, opportunities, batch, items);
    for (const [item, unknown] of missing) failUnknown(item, unknown);
    await requireSingleMatch(batch, items, (ids) => findOpportunities(attempt, customerId, ids));
    if (batch.operation === 'delete') await remove(attempt, customerId, batch, items, own);
    else {
      for (const item of alive(items)) setColumns(opportunities, batch, item, patched);
      await assignExternalIds(attempt, customerId, opportunities, batch, items);
      endIfAtomic(batch, items);
      await write(attempt, customerId, items, own);
    }
    return outcomesOf(items);
  });
}

export const readOpportunityBatch = (
  sql: Transaction,
  customerId: string,
  batch: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Opportunity>[]> => readBatch(sql, customerId, opportunities, batch);

/** Fails an item that refers to records that do not exist. A deleted product may stay where it has a line. */
function failUnknown(item: OpportunityItem, missing: readonly Reference[]): void {
  const details = item.stored?.details ?? [];
  const present = new Set(details.map(({ product_id }) => product_id));
  const given = item.body['products'] as GivenLines;
  const isKept = ({ noun, id }: Reference) => noun === 'product' && Array.isArray(given) && present.has(id);
  const unknown = [...missing.filter((one) => !isKept(one)), ...findAbsentLines(details, given)];
  if (unknown.length > 0) fail(item, missingReferences(unknown));
}

/** Of a new opportunity. What is empty here and must not be, its body has. */
const blank: OpportunityColumns = {
  name: '',
  description: '',
  price: 0,
  priority: 'NONE',
  stage_id: '',
  company_id: null,
  user_id_assigned: '',
  source_id: null,
  estimated_closing_date: '',
  close_date: '',
  external_id: null,
  contacts_ids: [],
  details: [],
};

/**
 * Returns the columns of an opportunity after a PATCH.
 * @throws DomainError `conflict`, `validation_failed`: see `linesAfter` and `sumOf`
 */
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

/** If an opportunity gets no company, the id of a deleted one stays: see `companyAfter`. */
const written: WrittenTable<Pick<OpportunityColumns, (typeof rowColumns)[number]>> = {
  name: 'opportunities',
  columns: rowColumns,
  setApart: ['company_id'],
  alsoSet: (sql, customerId) => sql`company_id = ${companyAfter(sql, customerId, 'r', sql`given.company_id`)}`,
};

async function write(
  sql: Transaction,
  customerId: string,
  items: readonly OpportunityItem[],
  last: LastWrites,
): Promise<void> {
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
      id: toldOf(item).id,
    }),
  );
  await setParts(sql, customerId, parts);
  await setNames(sql, customerId, changed);
  addEvents(last, 'opportunity', { created, changed });
}

const hasSameParts = (stored: OpportunityColumns, columns: OpportunityColumns): boolean =>
  (['stage_id', 'contacts_ids', 'details'] as const).every((name) => isSame(stored[name], columns[name]));

/** Gives new lines the names of their products, as the journal tells them. */
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

/** Deletes opportunities with their lines. */
async function remove(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  items: readonly OpportunityItem[],
  last: LastWrites,
): Promise<void> {
  endIfAtomic(batch, items);
  const removed = alive(items).map(({ stored }) => stored!);
  const ids = setDeleted(items);
  if (ids.length === 0) return;
  await detachActivities(sql, customerId, 'opportunity', ids);
  await removeParts(sql, customerId, ids);
  await sql`
    delete from opportunities
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])`;
  for (const { id, ...values } of removed) last.deleted('opportunity', { id, external_id: values.external_id }, values);
}

/** Returns the records to which a body refers. */
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

function asKept<T extends Partial<OpportunityColumns>>(fields: T): T {
  const { estimated_closing_date, close_date } = fields;
  return {
    ...normalise(fields),
    ...(estimated_closing_date === undefined
      ? {}
      : { estimated_closing_date: canonicalInstant(estimated_closing_date) }),
    ...(close_date === undefined ? {} : { close_date: canonicalInstant(close_date) }),
  };
}
