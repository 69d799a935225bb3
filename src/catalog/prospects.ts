import { createHash } from 'node:crypto';
import { isEmailAddress } from '../schemas/formats.ts';
import {
  type Prospect,
  prospectOrderFields,
  type ProspectCount,
  type ProspectFilters,
  type ProspectMetadata,
  type ProspectQuery,
} from '../schemas/prospects.ts';
import type { Config } from '../process/config.ts';
import type { Database } from '../database/db.ts';
import { validationFailed } from '../errors.ts';
import { encodeCursor, isLongText, readPosition, withLongTexts } from '../filters/cursor.ts';
import { parseOrder } from '../filters/columns.ts';
import { findUnlocked } from '../queries/jobs/unlocks.ts';
import { defaultLimit } from '../schemas/wire.ts';
import { maxPageDepth, filtersApplied, toCriteria, bestFirst, cursorColumns, positionOf } from './catalog.ts';
import type { Catalog, Search, ProspectOrder, ProspectPosition } from './catalog.ts';

const dot = '•';

export const mask = ({ source: _source, collected_at: _at, ...prospect }: Prospect): Prospect => ({
  ...prospect,
  work_email: maskEmail(prospect.work_email),
  emails: prospect.emails.map(maskEmail),
  mobile_phone: prospect.mobile_phone === null ? null : maskPhone(prospect.mobile_phone),
});

function maskEmail(email: string): string {
  if (email === '') return '';
  const hidden = dot.repeat(3);
  return isEmailAddress(email) ? `${email[0]}${hidden}${email.slice(email.lastIndexOf('@'))}` : hidden;
}

function maskPhone(phone: string): string {
  const characters = Array.from(phone);
  let left = phone.match(digits)?.length ?? 0;
  const shown = left > 2 ? 2 : 0;
  return characters.map((character) => (digit.test(character) && (left -= 1) < shown ? character : dot)).join('');
}

const digit = /\p{Nd}/u;
const digits = /\p{Nd}/gu;

export interface ProspectServices {
  config: Pick<Config, 'PROSPECT_MASKING'>;
  db: Pick<Database, 'lookup'>;
  catalog: Pick<Catalog, 'search' | 'count' | 'find'>;
}

/**
 * Returns a page, and the cursor of the next page if this one is full. Masks contact data of prospects that the
 * customer has not unlocked, unless masking is off.
 * @throws DomainError `validation_failed`; `unavailable` if the catalog does not respond in time
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
 * Counts prospects and pages. `total_pages` counts only pages that can be requested without a cursor.
 * @throws DomainError `validation_failed`; `unavailable` if the catalog does not respond in time
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

export async function countMatches(
  { catalog }: Pick<ProspectServices, 'catalog'>,
  customerId: string,
  filters: ProspectFilters,
): Promise<{ all: number; unlocked: number }> {
  const criteria = toCriteria(filters);
  const [all, unlocked] = await Promise.all([
    catalog.count({ criteria }),
    catalog.count({ criteria, unlockedBy: customerId }),
  ]);
  return { all, unlocked };
}

export function toSearch(
  customerId: string,
  query: Pick<ProspectQuery, 'filters' | 'order_by' | 'all_contacts'>,
): Search {
  const order = query.order_by === undefined ? bestFirst : (parseOrder(query.order_by) as ProspectOrder);
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

const scopeOf = (customerId: string, { criteria, order, netNewFor }: Search): string =>
  createHash('sha256')
    .update(JSON.stringify([prospectOrderFields.noun, customerId, criteria, order, netNewFor !== undefined]))
    .digest('base64url')
    .slice(0, 16);

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
 * Masks prospects that the customer has not unlocked. Reads the unlocks from PostgreSQL, because the search index may
 * lack the newest.
 */
export async function maskLocked(
  { config, db }: ProspectServices,
  customerId: string,
  found: Prospect[],
): Promise<Prospect[]> {
  if (config.PROSPECT_MASKING === 'off' || found.length === 0) return found;
  const ids = found.map(({ _id }) => _id);
  const unlocked = await db.lookup((sql) => findUnlocked(sql, customerId, ids));
  return found.map((prospect) => (unlocked.has(prospect._id) ? prospect : mask(prospect)));
}
