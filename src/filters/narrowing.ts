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

/** Number of a customer's newest records that a listing reads first, before it uses an index of search terms. */
export const newest = 2_000;

/**
 * Number of a customer's newest records that a listing reads next, if some of the first `newest` records passed the
 * filter.
 */
export const moreOfNewest = 10_000;

/**
 * Number of matching records among the newest at which the index of search terms is not used: it would select too many.
 */
export const manyOfNewest = 40;

/** Returns whether a listing is in the default order: newest first. */
export const isNewestFirst = ({ order }: RecordQuery): boolean =>
  order.length === 1 && order[0]!.field === 'created_at' && order[0]!.direction === 'DESC';

/**
 * Returns whether indexes can select candidates (records that may pass the filter) for a listing. Returns false if a
 * b-tree index finds few records for the filter anyway.
 */
export const isIndexable = (sql: FragmentMaker, listing: RecordQuery): boolean =>
  candidateConditionOf(sql, listing) !== undefined && !isSelective(listing.filter);

/** Fields with a b-tree index, of which few records have the same value. */
const selectiveFields = new Set(['id', 'external_id', 'company_id', 'work_email', 'last_name', 'company_name']);

const isSelective = (filter: Filter): boolean =>
  filter.kind === 'all' ? filter.of.some(isSelective) : filter.kind === 'in' && selectiveFields.has(filter.field);

/**
 * Number of records without search terms above which the index is not used: it cannot tell which of them pass the
 * filter.
 */
const manyWithoutTerms = 5_000;

/**
 * SQL condition: many of the customer's records have no search terms, because an older version of this program wrote
 * them. This can be so after an upgrade, until a worker has added the terms.
 */
export function hasManyWithoutTerms(sql: FragmentMaker, { source, customerId, filter }: RecordQuery): Fragment {
  const many = (of: Source): Fragment => sql`exists (
    select 1
    from ${constant(sql, `${of.table} ${of.alias}`)}
    where ${constant(sql, of.alias)}.customer_id = ${customerId}::uuid
      and ${constant(sql, withoutTerms(of))}
    offset ${manyWithoutTerms}::bigint
  )`;
  return usesCompany(source, filter) ? sql`${many(source)} or ${many(companySource)}` : many(source);
}

/**
 * Returns an SQL condition that selects candidates for a listing: all records that pass the filter, and perhaps some
 * others. Returns undefined if no index can select them.
 */
export const candidateConditionOf = (
  sql: FragmentMaker,
  { source, customerId, filter }: RecordQuery,
): Fragment | undefined => candidateCondition(sql, source, customerId, filter);

/** Returns whether a filter of contacts reads fields of their companies. */
export const usesCompany = ({ alias }: Source, filter: Filter): boolean =>
  alias === 'c' &&
  [...fieldsOf(filter)].some((field) => field === 'search' || field === 'company_id' || field.startsWith('company.'));

/**
 * SQL condition: the record is one of the customer's newest `size` records, or of those after the cursor. The ids are
 * selected into an array first. The planner expects an array to have few ids, so it reads these records by id.
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
 * SQL condition: the record is one of the candidates, the records that indexes select because they may pass the filter.
 * Their ids are selected into an array first. The planner expects an array to have few ids, so it reads these records
 * by id, in any order and join.
 */
export function isCandidate(sql: FragmentMaker, listing: RecordQuery): Fragment {
  const { source, customerId, filter } = listing;
  const id = constant(sql, `${source.alias}.id`);
  const ids = candidateIds(sql, source, customerId, filter);
  return ids ? sql`${id} = any(array(${ids}))` : constant(sql, 'true');
}
