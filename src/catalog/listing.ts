import { createHash } from 'node:crypto';
import type { Config } from '../config.ts';
import type { Database } from '../db.ts';
import { validationFailed } from '../errors.ts';
import { cursorFault, encodeCursor, readPosition } from '../filters/cursor.ts';
import { parseOrder } from '../filters/order.ts';
import { unlockedAmong } from '../queries/unlocks.ts';
import {
  prospectOrderFields,
  type Prospect,
  type ProspectCount,
  type ProspectMetadata,
  type ProspectQuery,
} from '../schemas/prospects.ts';
import { defaultLimit } from '../schemas/wire.ts';
import { deepestPage, type Catalog, type Search } from './catalog.ts';
import { filtersApplied, toCriteria } from './criteria.ts';
import { mask } from './masking.ts';
import { bestFirst, cursorColumns, isWhole, positionOf, type ProspectOrder, type ProspectPosition } from './order.ts';

/** What looking for prospects needs. */
export interface Services {
  config: Pick<Config, 'PROSPECT_MASKING'>;
  db: Pick<Database, 'lookup'>;
  catalog: Pick<Catalog, 'search' | 'count' | 'find'>;
}

/**
 * A page of prospects as the customer may see them, and the cursor that continues after it; none when it is not full.
 * @throws DomainError `validation_failed`, `unavailable`
 */
export async function listProspects(
  services: Services,
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
 * How many prospects match. The pages counted are those that can be asked for by number.
 * @throws DomainError `validation_failed`, `unavailable`
 */
export async function countProspects(
  services: Services,
  customerId: string,
  query: ProspectCount,
): Promise<ProspectMetadata> {
  const { page = 1, limit = defaultLimit } = query.paginate ?? {};
  refuseTooDeep(page, limit);
  const total = await services.catalog.count(toSearch(customerId, query));
  const total_pages = Math.min(Math.ceil(total / limit), Math.floor(deepestPage / limit));
  return {
    pagination: { current_page: page, total_records: total, total_pages },
    filters_applied: filtersApplied(query.filters ?? {}),
  };
}

/** What a request looks for, in the catalog's terms. */
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
  if (page * limit > deepestPage)
    throw validationFailed([
      {
        path: '/paginate/page',
        message: `page × limit must not exceed ${deepestPage}; the cursor in a full page's header x-next-cursor goes as deep as you like`,
      },
    ]);
}

/** What a cursor is bound to: whose it is, what is looked for, in which order. */
const scopeOf = (customerId: string, { criteria, order, netNewFor }: Search): string =>
  createHash('sha256')
    .update(JSON.stringify([prospectOrderFields.noun, customerId, criteria, order, netNewFor !== undefined]))
    .digest('base64url')
    .slice(0, 16);

/** Returns the prospect after which the page begins; undefined when the request has no cursor. */
async function readAfter(
  { catalog }: Services,
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
  if (!position || isWhole(position)) return position;
  const [last] = await catalog.find([position.id]);
  if (!last) throw cursorFault('stands on a prospect that is no more');
  return positionOf(last, order);
}

/** Asked after the search, so that what was unlocked before the request is clear, whatever the engine knows yet. */
async function maskLocked({ config, db }: Services, customerId: string, found: Prospect[]): Promise<Prospect[]> {
  if (config.PROSPECT_MASKING === 'off' || found.length === 0) return found;
  const unlocked = await db.lookup((sql) =>
    unlockedAmong(
      sql,
      customerId,
      found.map(({ _id }) => _id),
    ),
  );
  return found.map((prospect) => (unlocked.has(prospect._id) ? prospect : mask(prospect)));
}
