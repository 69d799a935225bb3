import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { compile } from '../../src/validation/validator.ts';
import { startApp } from '../setup/app.ts';
import { visitorOf } from '../pages/visitor.ts';
import { declaredRoutes } from './declared.ts';
import { makeRecords, recordAt, unchecked, type Records } from './records.ts';
import { bodyWithId, idPositionsOf, isSecond, placeIn, thePath } from './references.ts';

// An id in upper case is the same id. It is converted to lower case once, where it enters, and this file sends one to
// every place where an id enters. The positions are derived from the schemas: a new route is covered without a change.
const { documented, hidden } = await declaredRoutes();
const app = await startApp();

/** Sends the ids unchanged, or in upper case. */
type Spelling = (id: string) => string;
const lower: Spelling = (id) => id;
const upper: Spelling = (id) => id.toUpperCase();

const positions = documented.flatMap((route) =>
  idPositionsOf(route).map((pointer) => ({ route, pointer, name: route.name })),
);

/** Ids of records that need not exist. */
const anyId = (pointer: string): string => `0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a${isSecond(pointer) ? '5c' : '5b'}`;

/** Ids of each kind of record, which need not exist: no request is sent. */
const anyRecords = new Proxy(
  { adminEmail: 'ada@example.com', importKind: { object: 'contacts', mode: 'update' } } as Records,
  {
    get: (given, kind: keyof Records) =>
      given[kind] ?? anyId('').slice(0, -12) + createHash('sha256').update(kind).digest('hex').slice(0, 12),
  },
);

test.each(positions)('$name reads the id at $pointer in lower case', ({ route, pointer }) => {
  const place = placeIn(route, pointer);
  const id = unchecked.has(place) ? anyId(pointer) : recordAt(anyRecords, place, isSecond(pointer));
  const read = (given: string) => (pointer === thePath ? { id: given } : bodyWithId(route, anyRecords, pointer, given));
  const [expected, given] = [read(id), read(upper(id))];
  expect(given).not.toEqual(expected);
  expect(compile(pointer === thePath ? route.params! : route.body!).faultsOf(given)).toEqual([]);
  expect(given).toEqual(expected);
});

describe('pages', () => {
  const ofPages = hidden.filter(
    ({ url, access }) => url.includes(':id') && url.startsWith('/app/') && 'page' in access,
  );
  const pages = Map.groupBy(ofPages, ({ url }) => url)
    .entries()
    .map(([url, routes]) => ({ url, methods: routes.map(({ method }) => method) }));

  let [visitor, stranger]: Awaited<ReturnType<typeof visitorOf>>[] = [];
  /** The record that the pages of a section show. */
  let recordOf: Record<string, string>;
  let form_token: string | undefined;

  beforeAll(async () => {
    const made = await makeRecords(app);
    visitor = await visitorOf(app.fastify, made.customer.id);
    stranger = await visitorOf(app.fastify, (await app.customer()).id);
    ({ form_token } = await stranger.fieldsOf('/app/password'));
    const [view] = await app.owner<[{ id: string }]>`
      insert into saved_views (customer_id, user_id, object, name, query, is_shared)
      values (${made.customer.id}, ${visitor.user.userId}, 'contacts', 'Germany', 'country=DE', false)
      returning id`;
    recordOf = {
      contacts: made.contact,
      companies: made.company,
      lists: made.list,
      opportunities: made.opportunity,
      pipelines: made.pipeline,
      products: made.product,
      activities: made.activity,
      approvals: made.approval,
      changes: made.change,
      imports: made.import,
      jobs: made.job,
      keys: made.apiKey,
      webhooks: made.webhook,
      users: made.user,
      views: view.id,
    };
  });

  test.each([...pages])('$url shows the same, and is 404 for another customer', async ({ url, methods }) => {
    const id = recordOf[url.split('/')[2]!]!;
    const shown = async (spelling: Spelling) => {
      const { status, location, body } = await visitor!.get(url.replace(':id', spelling(id)));
      return { status, location, body: body.replaceAll(/name="form_token" value="[^"]*"/g, '') };
    };
    const isRead = methods.includes('GET');
    const expected = isRead ? await shown(lower) : undefined;
    expect(expected?.status ?? 200).toBeLessThan(400); // some lead to another page
    expect(isRead ? await shown(upper) : undefined).toEqual(expected);
    const page = url.replace(':id', id);
    const answers = methods.map((method) =>
      method === 'POST' ? stranger!.post(page, { form_token: form_token! }) : stranger!.get(page),
    );
    // A page that leads to a list tells nothing of the record.
    const isRight = ({ status }: { status: number }) =>
      status === 404 || (status === 303 && status === expected?.status);
    expect((await Promise.all(answers)).filter((answer) => !isRight(answer))).toEqual([]);
  });
});
