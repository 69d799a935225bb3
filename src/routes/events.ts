import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import type { Database } from '../database/db.ts';
import { forbidden, validationFailed } from '../errors.ts';
import { cursorFault } from '../filters/cursor.ts';
import { isInstant } from '../schemas/formats.ts';
import { findEnd, findPositionAt, oldest, readEvents } from '../queries/records/feed.ts';
import type { FeedCursors, FeedEvent, FeedPage } from '../queries/records/feed.ts';
import { findVisibleImports, visibleImports } from '../queries/jobs/imports.ts';
import { findJobViews } from '../queries/jobs/jobs.ts';
import { findRecords } from '../queries/history/history.ts';
import { scopes, type Scope, routesOf } from '../schemas/scopes.ts';
import { ErrorBody } from '../schemas/wire.ts';
import { eventNouns, eventReaders, readableEvents, Event, EventQuery } from '../schemas/events.ts';
import type { EventNoun, EventType } from '../schemas/events.ts';
import { visibleJobs } from '../schemas/jobs.ts';

const readers = new Set(Object.values(eventReaders).flat());
const anyScope = scopes.filter((scope) => readers.has(scope));

const events: FastifyPluginAsyncTypebox = async (app) => {
  app.post(
    '/events/list',
    routesOf('events')(
      'listEvents',
      'Read changes',
      'Returns changes of records, ended jobs and imports, and other events, in an order in which none is missed: a ' +
        'reader that sends the value of `x-next-cursor` back each time gets each event once. The header is always ' +
        'there, also of an empty page. `x-more` tells whether more can be read at once. With `wait` the response comes ' +
        'within a second of the next event. A key sees the types whose records it may read. Events are kept 90 days: 410 ' +
        'means that the event of the cursor is no longer there, so export all records anew.',
      { body: EventQuery, response: { 200: Type.Array(Event), 410: ErrorBody } },
      { access: { anyScope }, isLong: true, hasMoreHeader: true },
    ),
    async (request, reply) => {
      const { db, body, caller } = request;
      const own = caller.kind === 'key' ? caller.scopes : [];
      const types = typesOf(own, body.types);
      const signer = await app.feedCursors();
      const after = await beginningOf(request.db, caller.customerId, body, signer);
      const page = await readOrWait(request, { after, types, limit: body.paginate?.limit ?? 100 }, own);
      void reply.header('x-next-cursor', signer.encode(caller.customerId, page.next));
      void reply.header('x-more', String(page.isMore));
      const shown = page.events.map(({ id, type, occurred_at, data }) => ({ id, type, occurred_at, data }));
      return body.expand ? expand(db, caller.customerId, shown, own) : shown;
    },
  );
};

export default events;

function typesOf(own: readonly Scope[], asked: readonly EventType[] | undefined): EventType[] {
  const readable = readableEvents(own);
  const secret = asked?.find((type) => !readable.includes(type));
  if (secret !== undefined) throw forbidden(eventReaders[secret]);
  return asked ? [...asked] : readable;
}

async function beginningOf(db: Database, customerId: string, { from, paginate }: EventQuery, cursors: FeedCursors) {
  if (paginate?.cursor !== undefined) {
    if (from !== undefined) throw validationFailed([{ path: '/from', message: 'cannot be combined with a cursor' }]);
    const place = cursors.decode(customerId, paginate.cursor);
    if (!place) throw cursorFault('is not a cursor from a response to this list');
    return place;
  }
  if (from === 'now') return findEnd(db, customerId);
  return from !== undefined && isInstant(from) ? findPositionAt(db, customerId, from) : oldest;
}

async function readOrWait(
  { db, body, caller: { customerId }, requester: { signal }, server }: FastifyRequest,
  query: Parameters<typeof readEvents>[2],
  own: readonly Scope[],
): Promise<FeedPage> {
  const { wait = 0 } = body as EventQuery;
  const end = performance.now() + wait * 1_000;
  for (let { after } = query; ;) {
    const page = await readEvents(db, customerId, { ...query, after });
    const events = await visibleOf(db, customerId, page.events, own);
    const rest = end - performance.now();
    if (events.length > 0 || rest <= 0 || signal!.aborted) return { ...page, events };
    after = page.next;
    if (!page.isMore) await server.eventWaits.wait(customerId, after.position, rest, signal!);
  }
}

async function visibleOf(db: Database, customerId: string, found: FeedEvent[], own: readonly Scope[]) {
  const [jobs, imports] = [idsOf(found, 'job'), idsOf(found, 'import')];
  const visible = new Set<unknown>([
    ...(jobs.length === 0 ? [] : await jobsOf(db, customerId, jobs, own)).map(({ id }) => id),
    ...(imports.length === 0 ? [] : await importsOf(db, customerId, imports, own)).map(({ id }) => id),
  ]);
  return found.filter(({ type, data }) => !['job.ended', 'import.ended'].includes(type) || visible.has(data.id));
}

const jobsOf = (db: Database, customerId: string, ids: string[], own: readonly Scope[]) =>
  db.lookup((sql) => findJobViews(sql, customerId, ids, visibleJobs(own)));

const importsOf = (db: Database, customerId: string, ids: string[], own: readonly Scope[]) =>
  db.lookup((sql) => findVisibleImports(sql, customerId, ids, visibleImports(own)));

const nounOf = (type: EventType): string => type.split('.')[0]!;

const idsOf = (found: readonly { type: EventType; data: FeedEvent['data'] }[], noun: string): string[] => [
  ...new Set(found.flatMap(({ type, data }) => (nounOf(type) === noun && data.id !== undefined ? [data.id] : []))),
];

type Shown = Omit<FeedEvent, 'position'>;

async function expand(db: Database, customerId: string, found: Shown[], own: readonly Scope[]): Promise<Event[]> {
  const find = (noun: string, ids: string[]): Promise<{ id: string }[]> => {
    if (noun === 'job') return jobsOf(db, customerId, ids, own);
    return noun === 'import'
      ? importsOf(db, customerId, ids, own)
      : findRecords(db, customerId, noun as EventNoun, ids);
  };
  const records = new Map<string, object>();
  for (const noun of [...eventNouns, 'job', 'import']) {
    const ids = idsOf(found, noun);
    if (ids.length > 0) for (const record of await find(noun, ids)) records.set(`${noun} ${record.id}`, record);
  }
  return found.map((event) => ({ ...event, record: records.get(`${nounOf(event.type)} ${event.data.id}`) ?? null }));
}
