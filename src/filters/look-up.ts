import { liveCompanies } from './live.ts';
import { constant, type Fragment, type FragmentMaker } from './sql.ts';

/**
 * Returns an SQL `left join` that adds to each row before it the row of another table with a given key, or nulls if
 * there is none. Use it for each join of a set of rows to companies, lists, opportunities or products.
 *
 * A plain join would leave it to the planner how to find the row. The planner does not know how many rows a customer has.
 * If it expects few, it may compare each row with all companies: 8,000,000 comparisons for 2,000 contacts and 4,000
 * companies. With `offset 0` the subquery stays apart from the statement, so the only plan is to read the row by its key,
 * once for each row before it.
 * @param row SQL statement that selects at most one row, by the whole primary key
 * @param alias alias of the added row in the rest of the statement
 */
export const lookUp = (sql: FragmentMaker, row: Fragment, alias: string): Fragment =>
  sql`left join lateral (${row} offset 0) ${constant(sql, alias)} on true`;

/**
 * Returns a `left join` that adds the company of each row as `co`, unless it is deleted. The folded texts are columns of
 * their own, so that a statement which reads many rows of few companies takes each text out of `folded` once.
 * @param alias of the table with `company_id`: `c` for contacts, `o` for opportunities
 */
export const lookUpCompany = (sql: FragmentMaker, customerId: string, alias: 'c' | 'o'): Fragment =>
  lookUp(
    sql,
    sql`
    select
      k.id,
      k.company_name,
      k.industry,
      (k.folded ->> 'company_name') collate "C" as folded_company_name,
      (k.folded ->> 'industry') collate "C" as folded_industry
    from ${liveCompanies(sql, customerId, 'k')}
      and k.id = ${constant(sql, alias)}.company_id`,
    'co',
  );
