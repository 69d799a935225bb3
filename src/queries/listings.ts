import type { Database, Sql, Transaction } from '../db.ts';
import { nextCursor, type Listing } from '../filters/listing.ts';
import { countClauses, pageClauses } from '../filters/page.ts';
import { recorder, run } from '../filters/recorded.ts';
import type { Fragment, FragmentMaker } from '../filters/sql.ts';
import { theOnlyList, type Filter } from '../filters/tree.ts';
import type { Metadata } from '../schemas/wire.ts';
import { countKept, readCount, type Counted } from './counters.ts';
import { countChanging, countFilling } from './list-counts.ts';
import { readSettled, type Reading } from './list-filters.ts';

/** A page of records, and the cursor that continues after it if it is full. */
export interface Page<Row> {
  rows: Row[];
  nextCursor: string | undefined;
}

/** Reads the page that a listing asks for, each record as `projection` shows it. */
export async function readPage<Row extends object>(
  db: Database,
  listing: Listing,
  projection: (sql: FragmentMaker) => Fragment,
): Promise<Page<Row>> {
  const rows = await readSettled(db, laneOf(db, listing), listing, async (sql, reading) => {
    const page = pageClauses(recorder, reading);
    const found = await run<Row>(
      sql,
      recorder`
      select ${projection(recorder)}
      from ${page.from}
      where ${reading.guard ? recorder`${reading.guard(recorder)} and` : recorder``} ${page.where}
      order by ${page.orderBy}
      limit ${page.limit}`,
    );
    return reading.guard && found.length === 0 ? undefined : found;
  });
  return { rows, nextCursor: nextCursor(listing, rows) };
}

/**
 * Counts what all pages of a listing hold together.
 * @param everything the count that is kept of all the customer's records of the kind
 */
export async function countPages(db: Database, listing: Listing, everything: Counted): Promise<Metadata> {
  if (asksForAll(listing.filter)) {
    const total = await db.lookup((sql) => readCount(sql, listing.customerId, everything));
    return metadataOf(total, listing);
  }
  const total = await readSettled(db, laneOf(db, listing), listing, (sql, reading) => countReading(sql, reading));
  return metadataOf(total, listing);
}

/** Counts what a reading holds; undefined when its guard does not hold. */
async function countReading(sql: Sql | Transaction, reading: Reading): Promise<number | undefined> {
  const { customerId, changing, filling, guard } = reading;
  if (filling) return (await countFilling(sql, customerId, [{ ...filling, filled_to: null }])).get(filling.id);
  if (changing) return (await countChanging(sql, customerId, [changing])).get(changing.id);
  const list = theOnlyList(reading.filter);
  const { total, from, where } = list === undefined ? countOfMatches(reading) : countKept(recorder, customerId, list);
  const [row] = await run<{ total: number }>(
    sql,
    recorder`
    select ${total} as total
    from ${from}
    where ${where}
    ${guard ? recorder`having ${guard(recorder)}` : recorder``}`,
  );
  return row?.total;
}

const countOfMatches = (reading: Reading) => ({
  total: recorder`count(*)`,
  ...countClauses(recorder, reading),
});

/** Answer of the metadata calls; there are no pages of nothing. */
export const metadataOf = (total: number, { limit, offset }: Pick<Listing, 'limit' | 'offset'>): Metadata => ({
  pagination: {
    current_page: offset / limit + 1,
    total_records: total,
    total_pages: Math.ceil(total / limit),
  },
});

const shallow = 1_000;

/** The first pages of everything, or of one list, have one shape and cost nothing; what a caller composes may not hold them up. */
function laneOf(db: Database, { filter, order, offset }: Listing): Database['search'] {
  const [key] = order;
  const isPlain = asksForAll(filter) || theOnlyList(filter) !== undefined;
  return isPlain && offset <= shallow && order.length === 1 && key?.field === 'created_at' ? db.lookup : db.search;
}

const asksForAll = (filter: Filter): boolean => filter.kind === 'all' && filter.of.length === 0;
