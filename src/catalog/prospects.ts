import { createHash } from 'node:crypto';
import type { Config } from '../process/config.ts';
import type { Database } from '../database/db.ts';
import { validationFailed } from '../errors.ts';
import { encodeCursor, isLongText, readPosition, withLongTexts } from '../filters/cursor.ts';
import { parseOrder } from '../filters/order.ts';
import { findUnlocked } from '../queries/catalog/unlocks.ts';
import {
  prospectOrderFields,
  type Prospect,
  type ProspectCount,
  type ProspectMetadata,
  type ProspectQuery,
} from '../schemas/prospects.ts';
import { defaultLimit } from '../schemas/base/wire.ts';
import { maxPageDepth, type Catalog, type Search } from './catalog.ts';
import { filtersApplied, toCriteria } from './criteria.ts';
import { mask } from './masking.ts';
import { bestFirst, cursorColumns, positionOf, type ProspectOrder, type ProspectPosition } from './order.ts';

/** What `listProspects` and `countProspects` need: the configuration, the database and the prospect catalog. */
export interface ProspectServices {
  config: Pick<Config, 'PROSPECT_MASKING'>;
  db: Pick<Database, 'lookup'>;
  catalog: Pick<Catalog, 'search' | 'count' | 'find'>;
}

/**
 * Returns one page of prospects, and the cursor for the next page. `nextCursor` is undefined if the page is not full.
 * The contact data of prospects that the customer has not unlocked (paid to see) is masked, unless masking is switched
 * off.
 * @throws DomainError `validation_failed` if the request is invalid, `unavailable` if the catalog does not respond in
 *   time
 */
export async function listProspects(
  services: ProspectServices,
  customerId: string,
  query: ProspectQuery,
): Promise<{ rows: Prospect[]; nextCursor: string | undefined }> {
  const search = toSearch(customerId, query);
  const scope = scopeOf(customerId, search);
  const { paginate = {} } = query;
  const { page = 1, limit = defaultLimit } = paginate;
  const after = await readAfter(services, scope, search.order, paginate);
  if (!after) refuseTooDeep(page, limit);
  const found = await services.catalog.search(search, {
    limit,
    skip: after ? 0 : limit * (page - 1),
    after,
  });
  const last = found.at(-1);
  const nextCursor = last && found.length === limit ? encodeCursor(scope, positionOf(last, search.order)) : undefined;
  return { rows: await maskLocked(services, customerId, found), nextCursor };
}

/**
 * Returns the number of prospects that match a request, and the number of pages. `total_pages` counts only pages that a
 * client can request by number, without a cursor.
 * @throws DomainError `validation_failed` if the request is invalid, `unavailable` if the catalog does not respond in
 *   time
 */
export async function countProspects(
  services: ProspectServices,
  customerId: string,
  query: ProspectCount,
): Promise<ProspectMetadata> {
  const { page = 1, limit = defaultLimit } = query.paginate ?? {};
  refuseTooDeep(page, limit);
  const total = await services.catalog.count(toSearch(customerId, query));
  const total_pages = Math.min(Math.ceil(total / limit), Math.floor(maxPageDepth / limit));
  return {
    pagination: { current_page: page, total_records: total, total_pages },
    filters_applied: filtersApplied(query.filters ?? {}),
  };
}

/**
 * Converts a request to a search of the catalog. The search leaves out prospects that the customer has unlocked (paid
 * to see), unless `all_contacts` is true.
 */
export function toSearch(
  customerId: string,
  query: Pick<ProspectQuery, 'filters' | 'order_by' | 'all_contacts'>,
): Search {
  const order =
    query.order_by === undefined ? bestFirst : (parseOrder(prospectOrderFields, query.order_by) as ProspectOrder);
  return {
    criteria: toCriteria(query.filters ?? {}),
    order,
    netNewFor: query.all_contacts ? undefined : customerId,
  };
}

function refuseTooDeep(page = 1, limit: number): void {
  if (page * limit > maxPageDepth)
    throw validationFailed([
      {
        path: '/paginate/page',
        message: `page × limit must not exceed ${maxPageDepth}; use the cursor in a full page's header x-next-cursor to read further`,
      },
    ]);
}

/**
 * Returns a hash of the customer's id, the conditions and the sort order of a search. A cursor contains the hash of its
 * search, and is rejected for any other search.
 */
const scopeOf = (customerId: string, { criteria, order, netNewFor }: Search): string =>
  createHash('sha256')
    .update(JSON.stringify([prospectOrderFields.noun, customerId, criteria, order, netNewFor !== undefined]))
    .digest('base64url')
    .slice(0, 16);

/**
 * Reads the cursor of a request. Returns the position where the previous page ended, or undefined if the request has no
 * cursor.
 */
async function readAfter(
  { catalog }: ProspectServices,
  scope: string,
  order: ProspectOrder,
  paginate: NonNullable<ProspectQuery['paginate']>,
): Promise<ProspectPosition | undefined> {
  const position = readPosition(
    scope,
    cursorColumns(order),
    paginate,
    'these filters, this order and this all_contacts',
  );
  if (!position) return undefined;
  const [last] = position.values.some(isLongText) ? await catalog.find([position.id]) : [];
  return withLongTexts(position, last && positionOf(last, order).values);
}

/**
 * Masks the contact data of those prospects that the customer has not unlocked (paid to see), and returns all
 * prospects. Reads the unlocks from Postgres, because the newest unlocks may be missing in the search index.
 */
async function maskLocked(
  { config, db }: ProspectServices,
  customerId: string,
  found: Prospect[],
): Promise<Prospect[]> {
  if (config.PROSPECT_MASKING === 'off' || found.length === 0) return found;
  const unlocked = await db.lookup((sql) =>
    findUnlocked(
      sql,
      customerId,
      found.map(({ _id }) => _id),
    ),
  );
  return found.map((prospect) => (unlocked.has(prospect._id) ? prospect : mask(prospect)));
}
