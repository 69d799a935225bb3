import type { Locked, LockedId, Queryable, Sql, Transaction } from '../../database/db.ts';
import { missingReferences, notFound } from '../../errors.ts';
import { requireMatch } from '../../text/etag.ts';
import { liveCompanies } from '../../filters/live.ts';
import { lookUp, lookUpCompany } from '../../filters/look-up.ts';
import { canonicalInstant } from '../../filters/values.ts';
import {
  opportunityFields,
  type Line,
  type Opportunity,
  type OpportunityCreate,
  type OpportunityFilters,
  type OpportunityPatch,
} from '../../schemas/opportunities.ts';
import { normalise } from '../../text/normalise.ts';
import { addContacts, setContacts } from './opportunity-contacts.ts';
import {
  findAbsentLines,
  addLines,
  updateLines,
  findLineProducts,
  moveLines,
  requireNewLines,
  totalOfLines,
} from './opportunity-lines.ts';
import {
  findByIds,
  type CreateRecord,
  type DeleteRecord,
  type FindRecords,
  type UpdateRecord,
} from '../records/finders.ts';
import { withLastWrites } from '../records/last-writes.ts';
import { isAfter, limitAndOffset, type PageById } from '../records/paging.ts';
import { lockReferences, requireReferences, type Reference } from '../records/references.ts';

type OpportunityColumns = Pick<Opportunity, (typeof opportunityFields)[number]>;

/** As the API returns it. A line has the name of its product, even if that is deleted. A deleted company is null. */
const projection = (sql: Queryable, customerId: string) => sql`
  o.id,
  ${sql(opportunityFields.filter((column) => column !== 'company_id').map((column) => `o.${column}`))},
  co.id as company_id,
  o.price,
  array(
    select m.contact_id
    from opportunity_contacts m
    where m.customer_id = ${customerId}
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
    ${lookUp(sql, sql`select p.name from products p where p.customer_id = ${customerId} and p.id = l.product_id`, 'p')}
    where l.customer_id = ${customerId}
      and l.opportunity_id = o.id
  ) as details,
  o.created_at,
  o.updated_at`;

const source = (sql: Queryable, customerId: string) => sql`
  opportunities o
  ${lookUpCompany(sql, customerId, 'o')}`;

/** SQL condition on the row of `opportunities`. An unknown id, also that of a deleted record, matches nothing. */
function matches(sql: Sql, customerId: string, { stage_id, company_id, contact_id }: OpportunityFilters) {
  const ids = (given: string | string[]) => [given].flat();
  return sql`
    customer_id = ${customerId}
    ${stage_id === undefined ? sql`` : sql`and stage_id = any(${ids(stage_id)}::uuid[])`}
    ${
      company_id === undefined
        ? sql``
        : sql`
          and company_id = any(array(
            select co.id
            from ${liveCompanies(sql, customerId)}
              and co.id = any(${ids(company_id)}::uuid[])
          ))`
    }
    ${
      contact_id === undefined
        ? sql``
        : sql`
          and id = any(array(
            select m.opportunity_id
            from opportunity_contacts m
            where m.customer_id = ${customerId}
              and m.contact_id = any(${ids(contact_id)}::uuid[])
          ))`
    }`;
}

export async function countOpportunities(sql: Sql, customerId: string, filters: OpportunityFilters): Promise<number> {
  const [row] = await sql<[{ total: number }]>`
    select count(*) as total
    from opportunities
    where ${matches(sql, customerId, filters)}`;
  return row.total;
}

export const listOpportunities = (
  sql: Sql,
  customerId: string,
  { filters = {}, paginate }: { filters?: OpportunityFilters; paginate?: PageById } = {},
): Promise<Opportunity[]> =>
  sql<Opportunity[]>`
    select ${projection(sql, customerId)}
    from ${source(sql, customerId)}
    where o.customer_id = ${customerId}
      and o.id = any(array(
        select id
        from opportunities
        where ${matches(sql, customerId, filters)}
          and ${isAfter(sql, 'id', paginate)}
        order by id desc
        ${limitAndOffset(sql, paginate)}
      ))
    order by o.id desc`;

/** In any order, without unknown ids. */
export const findOpportunities: FindRecords<Opportunity> = (sql, customerId, ids) =>
  findByIds(
    sql,
    ids,
    sql`
      select ${projection(sql, customerId)}
      from ${source(sql, customerId)}
      where o.customer_id = ${customerId}
        and o.id = wanted.id`,
  );

/**
 * Creates an opportunity with its contacts and lines.
 * @returns its id
 * @throws DomainError `not_found`, with nothing written, with the JSON pointer of every id in `body` that is not the
 * customer's
 */
export const createOpportunity: CreateRecord<OpportunityCreate> = async (sql, customerId, body) => {
  const { contacts_ids, products, ...fields } = body;
  await requireReferences(sql, customerId, referencesOf(body, products, '/products'));
  const [opportunity] = await sql<{ id: LockedId }[]>`
    insert into opportunities ${sql({ customer_id: customerId, ...asKept(fields) })}
    returning id`;
  const { id } = opportunity!;
  if (contacts_ids.length > 0) await addContacts(sql, customerId, id, contacts_ids);
  if (products.length > 0) {
    await addLines(sql, customerId, { id, stage_id: fields.stage_id }, products);
    await sql`
      update opportunities
      set price = ${totalOfLines(sql, customerId, id)}
      where customer_id = ${customerId}
        and id = ${id}`;
  }
  await withLastWrites(sql, customerId, async (last) => last.created('opportunity', { id }));
  return id;
};

/**
 * Updates the fields that `patch` contains, or none if one fails.
 * @throws DomainError `not_found` if the opportunity, or a record to which `patch` refers, is not the customer's;
 * `precondition_failed` if `ifMatch` is not its ETag; `conflict` if a product to add already has a line
 */
export const updateOpportunity: UpdateRecord<OpportunityPatch> = async (sql, customerId, id, patch, ifMatch) => {
  const { contacts_ids, products = {}, ...fields } = patch;
  // The referenced records are locked first (in the order of references.ts), then the opportunity. Deletions lock in
  // the same order.
  const missing = await lockReferences(sql, customerId, referencesOf(patch, products.add, '/products/add'));
  const { id: locked, ...current } = await lockOpportunity(sql, customerId, id);
  const present = patch.products ? await findLineProducts(sql, customerId, id) : new Set<string>();
  const absent = [...missing, ...findAbsentLines(present, products)];
  if (absent.length > 0) throw missingReferences(absent);
  if (ifMatch !== undefined) requireMatch(ifMatch, (await findOpportunities(sql, customerId, [id]))[0]!);
  requireNewLines(present, products);
  if (isEmpty(patch)) return;
  const before = await readParts(sql, customerId, id, patch);
  if (contacts_ids) await setContacts(sql, customerId, locked, contacts_ids);
  const place = { id: locked, stage_id: fields.stage_id ?? current.stage_id };
  await updateLines(sql, customerId, place, products);
  if (fields.stage_id) await moveLines(sql, customerId, place);
  const columns = { ...current, ...asKept(fields) };
  await sql`
    update opportunities
    set
      ${sql(columns)},
      price = ${totalOfLines(sql, customerId, id)},
      updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and id = ${id}`;
  const after = { ...columns, ...(await readParts(sql, customerId, id, patch)) };
  await withLastWrites(sql, customerId, async (last) =>
    last.updated('opportunity', { id }, { ...current, ...before }, after),
  );
};

/** The members of an opportunity that other tables determine: also whether its company is deleted. */
type Parts = Partial<Pick<Opportunity, 'company_id' | 'contacts_ids' | 'details' | 'price'>>;

async function readParts(
  sql: Transaction,
  customerId: string,
  id: string,
  { company_id, contacts_ids, products }: OpportunityPatch,
): Promise<Parts> {
  if (company_id === undefined && !contacts_ids && !products) return {};
  const [opportunity] = await findOpportunities(sql, customerId, [id]);
  const { company_id: company, contacts_ids: contacts, details, price } = opportunity!;
  return {
    ...(company_id === undefined ? {} : { company_id: company }),
    ...(contacts_ids ? { contacts_ids: contacts } : {}),
    ...(products ? { details, price } : {}),
  };
}

/**
 * Deletes an opportunity with its lines.
 * @throws DomainError `not_found`; `precondition_failed` if `ifMatch` is not its ETag
 */
export const deleteOpportunity: DeleteRecord = async (sql, customerId, id, ifMatch) => {
  const { id: _id, ...columns } = await lockOpportunity(sql, customerId, id);
  const [shown] = await findOpportunities(sql, customerId, [id]);
  if (ifMatch !== undefined) requireMatch(ifMatch, shown!);
  const { contacts_ids, details, price } = shown!;
  await sql`
    delete from opportunity_lines
    where customer_id = ${customerId}
      and opportunity_id = ${id}`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and opportunity_id = ${id}`;
  await sql`
    delete from opportunities
    where customer_id = ${customerId}
      and id = ${id}`;
  await withLastWrites(sql, customerId, async (last) =>
    last.deleted('opportunity', { id }, { ...columns, contacts_ids, details, price }),
  );
};

/** A record, and the company that it had. */
export interface MovedRecord {
  id: string;
  company_id: string;
}

export const byCompany = (moved: readonly MovedRecord[]): Map<string, string[]> =>
  new Map(
    Array.from(
      Map.groupBy(moved, ({ company_id }) => company_id),
      ([company, records]) => [company, records.map(({ id }) => id)],
    ),
  );

/** Gives the opportunities of companies to another company. Returns their ids, by company. */
export async function moveOpportunities(
  sql: Transaction,
  customerId: string,
  companyIds: readonly string[],
  to: LockedId,
): Promise<Map<string, string[]>> {
  const moved = await sql<MovedRecord[]>`
    with held as (
      select id, company_id
      from opportunities
      where customer_id = ${customerId}
        and company_id = any(${companyIds as string[]}::uuid[])
      order by id
      for no key update
    )
    update opportunities o
    set company_id = ${to}, updated_at = (select clock_timestamp())
    from held
    where o.customer_id = ${customerId}
      and o.id = held.id
    returning o.id, held.company_id`;
  return byCompany(moved);
}

async function lockOpportunity(sql: Transaction, customerId: string, id: string): Promise<Locked<OpportunityColumns>> {
  const [opportunity] = await sql<Locked<OpportunityColumns>[]>`
    select id, ${sql(opportunityFields)}
    from opportunities
    where customer_id = ${customerId}
      and id = ${id}
    for update`;
  if (!opportunity) throw notFound('opportunity');
  return opportunity;
}

/** Ignores empty arrays in `products`. */
const isEmpty = ({ products = {}, ...others }: OpportunityPatch): boolean =>
  Object.keys(others).length === 0 && Object.values(products).every((lines) => lines.length === 0);

function referencesOf(body: OpportunityPatch | OpportunityCreate, lines: Line[] = [], linesPath: string): Reference[] {
  const { company_id, contacts_ids = [], user_id_assigned, stage_id } = body;
  return [
    ...(company_id ? [{ noun: 'company' as const, id: company_id, path: '/company_id' }] : []),
    ...contacts_ids.map((id, index) => ({ noun: 'contact' as const, id, path: `/contacts_ids/${index}` })),
    ...(user_id_assigned ? [{ noun: 'user' as const, id: user_id_assigned, path: '/user_id_assigned' }] : []),
    ...(stage_id ? [{ noun: 'stage' as const, id: stage_id, path: '/stage_id' }] : []),
    ...lines.map(({ id }, index) => ({ noun: 'product' as const, id, path: `${linesPath}/${index}/id` })),
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
