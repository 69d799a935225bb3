import { constant, type Fragment, type FragmentMaker } from './sql.ts';

/*
 * The rows of deleted companies and lists stay for `HISTORY_DAYS`, and until then contacts, opportunities and memberships
 * refer to them. So a statement takes companies and lists from here. `test/live-records.test.ts` fails if one names the
 * tables itself.
 */

/** SQL condition: the company or list with this alias is not deleted. */
export const isLive = (alias: string): string => `${alias}.deleted_at is null`;

/**
 * Returns the customer's companies that are not deleted, as SQL that begins the clauses `from` and `where`:
 * ``select id from ${liveCompanies(sql, customerId)} and id = …``. Rows can be locked by the statement.
 */
export const liveCompanies = (sql: FragmentMaker, customerId: string, alias = 'co'): Fragment =>
  live(sql, 'companies', customerId, alias);

/** Returns the customer's lists that are not deleted, as `liveCompanies` does. */
export const liveLists = (sql: FragmentMaker, customerId: string, alias = 'l'): Fragment =>
  live(sql, 'lists', customerId, alias);

const live = (sql: FragmentMaker, table: string, customerId: string, alias: string): Fragment =>
  sql`${constant(sql, `${table} ${alias} where ${alias}.customer_id =`)} ${customerId}::uuid and ${constant(sql, isLive(alias))}`;
