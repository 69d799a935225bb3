import { candidateCondition, candidateIds, withoutTerms } from './candidates.ts';
import { companySource, type Source } from './columns.ts';
import type { RecordQuery } from './record-query.ts';
import { constant, type Fragment, type FragmentMaker } from './sql.ts';
import { fieldsOf, type Filter } from './tree.ts';

/*
 * Two ways to read fewer records than the customer has:
 * - the newest records: enough for a page of a filter that many records pass;
 * - the candidates that indexes select: cheap for a filter that few records pass.
 * How many records pass is not known, and statistics do not tell it for one customer. So the newest are tried first.
 */

/** Number of newest records that a listing tries before it uses the index. */
export const newest = 2_000;

/** Number of newest records that it tries next, if some of the first passed the filter. */
export const moreOfNewest = 10_000;

/** If so many of the newest records pass a filter, the index would select too many candidates. */
export const manyOfNewest = 40;

/** Returns whether a listing is in the default order: newest first. */
export const isNewestFirst = ({ order }: RecordQuery): boolean =>
  order.length === 1 && order[0]!.field === 'created_at' && order[0]!.direction === 'DESC';

/** Returns whether terms can select candidates for a listing's filter, and no b-tree index finds its few records anyway. */
export const isIndexable = (sql: FragmentMaker, listing: RecordQuery): boolean =>
  candidateConditionOf(sql, listing) !== undefined && !isSelective(listing.filter);

/** Fields with a b-tree index, of which few records have the same value. */
const selectiveFields = new Set(['id', 'external_id', 'company_id', 'work_email', 'last_name', 'company_name']);

const isSelective = (filter: Filter): boolean =>
  filter.kind === 'all' ? filter.of.some(isSelective) : filter.kind === 'in' && selectiveFields.has(filter.field);

/** Number of records without terms above which the index is not used: all of them would be candidates. */
const manyWithoutTerms = 5_000;

/**
 * SQL condition: many of the customer's records have no terms yet, because an older program wrote them. So it is after
 * the upgrade of an existing database, until a worker has added the terms.
 */
export function hasManyWithoutTerms(sql: FragmentMaker, { source, customerId, filter }: RecordQuery): Fragment {
  const many = (of: Source): Fragment => sql`exists (
    select
    from ${constant(sql, `${of.table} ${of.alias}`)}
    where ${constant(sql, of.alias)}.customer_id = ${customerId}::uuid
      and ${constant(sql, withoutTerms(of))}
    offset ${manyWithoutTerms}::bigint
  )`;
  return usesCompany(source, filter) ? sql`${many(source)} or ${many(companySource)}` : many(source);
}

/** Returns the SQL condition of the candidates, or undefined if no index can select them (see candidates.ts). */
export const candidateConditionOf = (
  sql: FragmentMaker,
  { source, customerId, filter }: RecordQuery,
): Fragment | undefined => candidateCondition(sql, source, customerId, filter);

/** Returns whether a filter of contacts reads fields of their companies. */
export const usesCompany = ({ alias }: Source, filter: Filter): boolean =>
  alias === 'c' &&
  [...fieldsOf(filter)].some((field) => field === 'search' || field === 'company_id' || field.startsWith('company.'));

/**
 * SQL condition: the record is one of the customer's newest, in a page by cursor one of the newest after the cursor. The
 * planner takes the array for a few ids, so it reads these records by id.
 */
export function isAmongNewest(sql: FragmentMaker, listing: RecordQuery, size: number): Fragment {
  const { source, customerId, after } = listing;
  return sql`${constant(sql, source.alias)}.id = any(array(
    select newest.id
    from ${constant(sql, source.table)} newest
    where newest.customer_id = ${customerId}::uuid
      ${after && isNewestFirst(listing) ? sql`and newest.id < ${after.id}::uuid` : sql``}
    order by newest.id desc
    limit ${size}::bigint
  ))`;
}

/**
 * SQL condition: the record is one of the candidates that indexes select. Their ids are selected first, as an array,
 * which the planner takes for a few ids: so it reads these records by id, in any order and join.
 */
export function isCandidate(sql: FragmentMaker, listing: RecordQuery): Fragment {
  const { source, customerId, filter } = listing;
  const id = constant(sql, `${source.alias}.id`);
  const ids = candidateIds(sql, source, customerId, filter);
  return ids ? sql`${id} = any(array(${ids}))` : constant(sql, 'true');
}
