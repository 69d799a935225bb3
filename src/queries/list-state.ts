import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { noneSettling, usesCompanyFields } from './company-settlements.ts';

/** Columns that say whether the stored members of a list are exact (see `listState`). */
export interface ListState {
  /** True while a worker writes the members of the list after a change of the rules. */
  is_filling: boolean;
  /**
   * Id of the last contact whose membership is stored; contacts are processed in the order of their ids. Null if no
   * membership is stored yet, or if stored memberships may be out of date.
   */
  filled_to: string | null;
  /** True while contacts copied from another list wait to be written as members. */
  is_copying: boolean;
  /**
   * True while stored members may be out of date after a change of a company: the list's rules use company fields, and
   * contacts of the company wait for an update.
   */
  is_changing: boolean;
}

/**
 * SQL condition: the rules of the list `l` use company fields, and contacts of changed companies wait for an update.
 */
const isChanging = (sql: FragmentMaker, customerId: string): Fragment =>
  sql`(${usesCompanyFields(sql)} and not (${noneSettling(sql, customerId)}))`;

/** SQL condition: the stored members of the list `l` may not be exact. */
export const isUnsettled = (sql: FragmentMaker, customerId: string): Fragment =>
  sql`(l.fill_version is not null or ${isChanging(sql, customerId)})`;

/** SQL select list: the columns of `ListState` for the list `l`. */
export const listState = (sql: FragmentMaker, customerId: string): Fragment => sql`
  l.fill_version is not null as is_filling,
  l.is_copying,
  case when not ${isChanging(sql, customerId)} then l.filled_to end as filled_to,
  l.fill_version is null and ${isChanging(sql, customerId)} as is_changing`;
