import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { noneSettling, usesCompanyFields } from './company-settlements.ts';

/** Columns that say whether the stored members of a list are exact (see `listState`). */
export interface ListState {
  /** A worker is writing the list's members after its rules changed. */
  is_filling: boolean;
  /** The id of the last contact whose membership is stored; null: of none yet, or the stored one may not be exact. */
  filled_to: string | null;
  /** Copied contacts wait to become members of the list. */
  is_copying: boolean;
  /** The list's rules use company fields, and contacts wait to be updated after a change of their company. */
  is_changing: boolean;
}

/** SQL condition: the rules of the list `l` use company fields, and contacts of changed companies wait for an update. */
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
