import { candidateCondition, candidateIds, withoutTerms } from './candidates.ts';
import { companySource, hasCompany, type Source } from '../columns.ts';
import { highestId, lowestId } from '../../database/wire-types.ts';
import type { RecordQuery } from '../record-query.ts';
import { constant, type Fragment, type FragmentMaker } from '../sql.ts';
import { fieldsOf, type Filter } from '../tree.ts';

/*
 * Two ways to read fewer records than the customer has:
 * - the newest records: enough for a page of a filter that many records pass;
 * - the candidates that indexes select: cheap for a filter that few records pass.
 * How many records pass is not known, and statistics do not tell it for one customer. So the newest are tried first.
 */

/** How many of the newest records a list request reads first. If too few pass the filter, it then uses an index. */
export const maxNewest = 5_000;

/** The same, for a filter that also reads the company of each contact: this takes twice as long. */
const newestWithCompany = 2_000;

/** If at least this many of the newest records pass, terms are not used: they would select too many records. */
export const manyOfNewest = 40;

export const isNewestFirst = ({ order }: RecordQuery): boolean =>
  order.length === 1 && order[0]!.field === 'created_at' && order[0]!.direction === 'DESC';

/**
 * True if terms help to find the records. False if the filter has no condition for them, or a b-tree index already
 * finds few records.
 */
export const isIndexable = (sql: FragmentMaker, query: RecordQuery): boolean =>
  candidateConditionOf(sql, query) !== undefined && !isSelective(query.filter);

/** Fields with a b-tree index, in which few records share a value. */
const selectiveFields = new Set([
  'id',
  'external_id',
  'company_id',
  'work_email',
  'last_name',
  'company_name',
  'domain',
]);

const isSelective = (filter: Filter): boolean =>
  filter.kind === 'all' ? filter.of.some(isSelective) : filter.kind === 'in' && selectiveFields.has(filter.field);

/** Terms are used up to this many records without terms, which are read in addition. */
const manyWithoutTerms = 5_000;

/**
 * Condition: more than `manyWithoutTerms` of the customer's records have no terms. After an upgrade from a version
 * without them, this is true until a worker has added them.
 */
export function hasManyWithoutTerms(sql: FragmentMaker, { source, customerId, filter }: RecordQuery): Fragment {
  const many = (of: Source): Fragment => sql`exists (
    select 1
    from ${constant(sql, `${of.table} ${of.alias}`)}
    where ${constant(sql, of.alias)}.customer_id = ${customerId}::uuid
      and ${constant(sql, withoutTerms(of))}
    offset ${manyWithoutTerms}::bigint
  )`;
  return filterUsesCompany(source, filter) ? sql`${many(source)} or ${many(companySource)}` : many(source);
}

/** Returns the condition on candidates, or undefined if no index can select them. */
export const candidateConditionOf = (
  sql: FragmentMaker,
  { source, customerId, filter }: RecordQuery,
): Fragment | undefined => candidateCondition(sql, source, customerId, filter);

export const usesCompany = ({ source, filter, order }: RecordQuery): boolean =>
  hasCompany(source) &&
  (filterUsesCompany(source, filter) || order.some(({ field }) => source.columns[field]?.isOfCompany));

export const filterUsesCompany = (source: Source, filter: Filter): boolean =>
  hasCompany(source) &&
  [...fieldsOf(filter)].some((field) => field === 'search' || source.columns[field]?.isOfCompany === true);

/** Returns how many of a customer's newest records a list request reads first. */
export const firstOfNewest = (query: RecordQuery): number => (usesCompany(query) ? newestWithCompany : maxNewest);

/**
 * Returns the SQL of a subquery for a `from` clause: the customer's newest `size` records, newest first. A statement
 * that needs fewer of them stops early. If the request has a cursor and the default order, only the records after the
 * cursor are considered.
 */
export function newestRows(sql: FragmentMaker, query: RecordQuery, size: number): Fragment {
  const { source, customerId, after } = query;
  const end = after && isNewestFirst(query) ? sql`< (select ${after.id}::uuid)` : sql`<= (select ${highestId}::uuid)`;
  // The planner does not know the results of the subqueries for the bounds, and expects few records between them. So it
  // reads these records in the order of the primary key. Otherwise it might read all records of the customer and sort
  // them.
  return sql`(
    select newest.*
    from ${constant(sql, source.table)} newest
    where newest.customer_id = ${customerId}::uuid
      and newest.id >= (select ${lowestId}::uuid)
      and newest.id ${end}
    order by newest.id desc
    limit ${size}::bigint
  ) ${constant(sql, source.alias)}`;
}

export function isCandidate(sql: FragmentMaker, query: RecordQuery): Fragment {
  const { source, customerId, filter } = query;
  const id = constant(sql, `${source.alias}.id`);
  const ids = candidateIds(sql, source, customerId, filter);
  // The planner expects an array to have few ids, so it reads these records by id, in any order and join.
  return ids ? sql`${id} = any(array(${ids}))` : constant(sql, 'true');
}
