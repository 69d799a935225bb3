import type { Sql } from '../db.ts';
import type { Paginate } from '../schemas/wire.ts';

/** The clause that cuts a page by number out of an ordered list. */
export const pageOf = (sql: Sql, { page = 1, limit = 25 }: Paginate = {}) => sql`
  limit ${limit}
  offset ${(page - 1) * limit}`;
