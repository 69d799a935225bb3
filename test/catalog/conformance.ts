import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { type Catalog, type Search, positionOf } from '../../src/catalog/catalog.ts';
import { importPeople } from '../../src/catalog/import-people.ts';
import { uuidOfUrl } from '../../src/catalog/parse-records.ts';
import { matchPeople, type MatchQuery } from '../../src/catalog/matching.ts';
import { toSearch } from '../../src/catalog/prospects.ts';
import type { Database } from '../../src/database/db.ts';
import { countryCodes } from '../../src/files/phones.ts';
import { insertUnlocks } from '../../src/queries/jobs/unlocks.ts';
import { textFields, wordFields } from '../../src/schemas/prospects.ts';
import type { Prospect, ProspectFilters } from '../../src/schemas/prospects.ts';
import { Model } from './model.ts';
import { suppress } from './suppress.ts';
import { anyFilters, anyOrder, anyPerson, anySearchText, person, writePeople } from './people.ts';

/** An empty catalog that no other test file uses, and the database with its unlocks. */
export interface Opened {
  catalog: Catalog;
  db: Database;
}

const uuid8 = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/**
 * Declares the tests that every engine must pass. All tests use one catalog; each test replaces its people.
 * @param runs number of random catalogs to try
 */
export function conforms({ catalog, db }: Opened, { runs = 40 } = {}): void {
  let present: string[] = [];

  beforeAll(async () => {
    await catalog.prepare();
    await catalog.finish();
  });

  /** Replaces all people of the catalog by these, and makes them visible. Suggestions change with the next `finish`. */
  async function hold(people: Prospect[]): Promise<void> {
    if (present.length > 0) await catalog.remove(present);
    if (people.length > 0) await writePeople(catalog, people);
    await catalog.refresh();
    present = people.map(({ _id }) => _id);
  }

  async function unlock(customerId: string, ids: string[]): Promise<void> {
    await db.transaction((sql) => insertUnlocks(sql, customerId, ids));
    await catalog.syncUnlocks(ids);
    await catalog.refresh();
  }

  const ids = (people: Prospect[]): string[] => people.map(({ _id }) => _id);
  const everyone = toSearch(randomUUID(), { all_contacts: true });
  const matching = (filters: ProspectFilters, order_by?: unknown): Search =>
    toSearch(randomUUID(), {
      filters,
      all_contacts: true,
      ...(order_by === undefined ? {} : { order_by: order_by as never }),
    });
  const find = async (filters: ProspectFilters): Promise<string[]> =>
    ids(await catalog.search(matching(filters), { limit: 100 }));

  test('an imported person without profile URL keeps a former id, if it is stored or unlocked, and else gets one that a hash of the e-mail address does not tell', async () => {
    const emails = ['stored', 'unlocked', 'fresh'].map((name) => `${name}-${randomUUID()}@x.example`);
    const [stored, unlocked, fresh] = emails.map((email) => uuidOfUrl(`mailto:${email}`)) as [string, string, string];
    await hold([person({ _id: stored, work_email: emails[0]!, profnet_url: null })]);
    await unlock(randomUUID(), [unlocked]);
    expect(await catalog.findStored([stored, unlocked, fresh])).toEqual([stored]);
    const lines = emails.map((work_email) => JSON.stringify({ work_email: work_email.toUpperCase() }));
    for (let times = 0; times < 2; times += 1)
      await importPeople(db, catalog, {
        chunks: Readable.from([Buffer.from([...lines, ...lines].join('\n'))]),
        format: 'ndjson',
        onBad: () => undefined,
        onProgress: () => undefined,
      });
    const people = await catalog.search(everyone, { limit: 10 });
    present = ids(people);
    const idOf = Object.fromEntries(people.map(({ _id, work_email }) => [work_email.toLowerCase(), _id]));
    expect(idOf).toEqual({ [emails[0]!]: stored, [emails[1]!]: unlocked, [emails[2]!]: expect.stringMatching(uuid8) });
  });

  test('a title, company or industry without letters and digits matches nobody, and beside others it adds nobody', async () => {
    const one = person({ job_title: 'Head of Mail' });
    await hold([one, person({ job_title: '—' }), person({ job_title: '' })]);
    for (const member of wordFields)
      for (const value of ['—', '@@', ' ', '']) {
        expect(await find({ [member]: [value] })).toEqual([]);
        expect(await catalog.count(matching({ [member]: [value] }))).toBe(0);
      }
    expect(await find({ job_title: ['—', 'mail'] })).toEqual([one._id]);
    expect(await find({ job_title: ['mail'], job_company_name: ['—'] })).toEqual([]);
  });

  test('people who are written while they are being unlocked are unlocked afterwards', async () => {
    const people = Array.from({ length: 30 }, () => person());
    const customers = Array.from({ length: 6 }, () => randomUUID());
    await hold(people);
    const rewrites = Array.from({ length: 6 }, () => writePeople(catalog, people));
    await Promise.all([...rewrites, ...customers.map((customer) => unlock(customer, ids(people)))]);
    await catalog.refresh();
    for (const customer of customers) expect(await catalog.count(toSearch(customer, {}))).toBe(0);
  });

  /** Matches people, and returns for each the ids that fit and what decided. */
  async function matched(...wanted: MatchQuery[]): Promise<[ids: string[], on: string[]][]> {
    const matches = await matchPeople(catalog, wanted, await countryCodes());
    return matches.map(({ found, matchedOn }) => [found.map(({ _id }) => _id), matchedOn]);
  }

  test('a person is matched by an e-mail address, else by the profile, else by names and company', async () => {
    const [ada, grace, long] = [
      person({ profnet_url: 'https://www.Profnet.example/in/Ada/?ref=1', emails: ['Second@Engines.example'] }),
      person({ first_name: 'Grace', last_name: 'Hopper', profnet_url: null, work_email: '', emails: [] }),
      person({
        profnet_url: `profnet.example/in/${'x'.repeat(2_000)}`,
        work_email: 'n/a',
        emails: [],
        last_name: 'Long',
      }),
    ];
    await hold([ada, grace, long]);
    const names = { first_name: 'GRÁCE', last_name: ' hopper', company_name: 'analytical  engines ltd' };
    expect(
      await matched(
        { profnet_url: 'HTTP://de.profnet.example/in/%61da' },
        { emails: ['SECOND@engines.example'], profnet_url: long.profnet_url },
        { emails: ['nobody@engines.example'], profnet_url: long.profnet_url!.toUpperCase() },
        { profnet_url: 'profnet.example/in/nobody', ...names },
        { ...names, company_name: 'Analytical Engines' },
        { profnet_url: 'https://profnet.example/in/', emails: ['n/a', ''], first_name: 'Grace', last_name: 'Hopper' },
      ),
    ).toEqual([
      [[ada._id], ['profnet_url']],
      [[ada._id], ['email']],
      [[long._id], ['profnet_url']],
      [[grace._id], ['name_and_company']],
      [[], []],
      [[], []],
    ]);
  });

  test('several people who fit are ambiguous, the best first, unless the country decides', async () => {
    const countries = ['Germany', 'Deutschland', 'France', 'Atlantis', '', '', ''];
    const people = countries.map((location_country, i) =>
      person({ location_country, score: 90 - i, profnet_url: null }),
    );
    await hold(people);
    const ids = people.map(({ _id }) => _id);
    const names = { first_name: 'Ada', last_name: 'Lovelace', company_name: 'Analytical Engines Ltd' };
    const of = (location_country: string) => ({ ...names, location_country });
    expect(await matched(names, of('DE'), of('fr'), of('ATLANTIS'), of('Spain'))).toEqual([
      [ids.slice(0, 5), ['name_and_company']],
      [ids.slice(0, 2), ['name_and_company', 'location_country']],
      [[ids[2]], ['name_and_company', 'location_country']],
      [[ids[3]], ['name_and_company', 'location_country']],
      [ids.slice(0, 5), ['name_and_company']],
    ]);
  });

  test('one person whom very many people resemble does not hide the others', async () => {
    const crowd = Array.from({ length: 1_100 }, (_, i) => person({ score: i % 100, profnet_url: null }));
    const rare = person({ first_name: 'Rare', score: 0, profnet_url: null });
    await hold([...crowd, rare]);
    const company_name = 'Analytical Engines Ltd';
    const [common, one] = await matched(
      { first_name: 'Ada', last_name: 'Lovelace', company_name },
      { first_name: 'Rare', last_name: 'Lovelace', company_name },
    );
    expect([common![0].length, one]).toEqual([5, [[rare._id], ['name_and_company']]]);
  });

  test('a reindex does not change the results of searches, look-ups and matches, neither meanwhile nor after, and loses no unlock', async () => {
    const ada = person({ profnet_url: 'https://www.Profnet.example/in/Countess/?ref=1' });
    const grace = person({ first_name: 'Grace', last_name: 'Hopper', profnet_url: null, work_email: '', emails: [] });
    const others = Array.from({ length: 2_498 }, (_, i) => person({ score: i % 101, first_name: `Name ${i % 5}` }));
    const [people, customer] = [[...others, ada, grace], randomUUID()];
    await hold(people);
    await unlock(customer, ids(people.slice(3, 9)));
    await catalog.finish();
    const look = async () => [
      await catalog.search(everyone, { limit: 100 }),
      await catalog.search(toSearch(customer, {}), { limit: 50 }),
      await catalog.count({ criteria: [] }),
      await catalog.suggest({ source: 'all' }),
      await matched(
        { profnet_url: ada.profnet_url },
        { first_name: 'GRÁCE', last_name: ' hopper', company_name: 'analytical  engines ltd' },
      ),
    ];
    const before = await look();
    const known = [
      [[ada._id], ['profnet_url']],
      [[grace._id], ['name_and_company']],
    ];
    expect(before.at(-1)).toEqual(known);
    const customers: string[] = [];
    const done = new AbortController();
    const watch = async (): Promise<void> => {
      while (!done.signal.aborted) {
        expect(await look()).toEqual(before);
        const unlocker = randomUUID();
        await unlock(unlocker, ids(people.slice(customers.length, customers.length + 10)));
        customers.push(unlocker);
      }
    };
    const watched = watch();
    expect(await catalog.reindex(() => undefined)).toBe(2_500);
    done.abort();
    await watched;
    expect(await look()).toEqual(before);
    expect(customers.length).toBeGreaterThan(0);
    for (const unlocker of customers) expect(await catalog.count(toSearch(unlocker, {}))).toBe(2_490);
  });

  describe('random catalogs', () => {
    test('return the same people, as they were written, order, counts, pages and suggestions as the model for random searches', async () => {
      const question = fc.record({
        filters: anyFilters,
        order: anyOrder,
        unlocker: fc.integer({ min: 0, max: 2 }),
        limit: fc.integer({ min: 1, max: 7 }),
      });
      const scene = fc.record({
        people: fc.uniqueArray(anyPerson, { maxLength: 40, selector: ({ _id }) => _id }),
        again: fc.array(fc.tuple(fc.nat(39), anyPerson), { maxLength: 8 }),
        gone: fc.array(fc.nat(39), { maxLength: 5 }),
        unlocks: fc.tuple(fc.array(fc.nat(39), { maxLength: 20 }), fc.array(fc.nat(39), { maxLength: 5 })),
        questions: fc.array(question, { minLength: 4, maxLength: 8 }),
        beginnings: fc.array(fc.record({ source: fc.constantFrom('all', ...textFields), search: anySearchText }), {
          minLength: 3,
          maxLength: 6,
        }),
      });
      await fc.assert(
        fc.asyncProperty(scene, async ({ people, again, gone, unlocks, questions, beginnings }) => {
          const model = new Model();
          await hold(people);
          for (const one of people) model.people.set(one._id, one);
          const chosen = (indexes: number[]) => [
            ...new Set(indexes.filter((i) => i < people.length).map((i) => people[i]!._id)),
          ];

          const rewritten = new Map(
            again
              .filter(([i]) => i < people.length)
              .map(([i, drawn]) => [people[i]!._id, { ...drawn, _id: people[i]!._id }]),
          );
          if (rewritten.size > 0) await writePeople(catalog, rewritten.values());
          for (const [id, one] of rewritten) model.people.set(id, one);
          if (gone.length > 0) await catalog.remove(chosen(gone));
          for (const id of chosen(gone)) model.people.delete(id);
          const customers = [randomUUID(), randomUUID(), randomUUID()];
          for (const [i, indexes] of unlocks.entries()) {
            const ids = chosen(indexes);
            if (ids.length > 0) await unlock(customers[i]!, ids);
            model.unlocked.set(customers[i]!, new Set(ids));
          }
          await catalog.finish();

          for (const { filters, order, unlocker, limit } of questions) {
            const customer = customers[unlocker]!;
            for (const all_contacts of [true, false]) {
              const search = toSearch(customer, {
                filters,
                all_contacts,
                ...(order ? { order_by: order } : {}),
              });
              const found = model.search(filters, order, all_contacts ? undefined : customer);
              expect(await catalog.search(search, { limit: 100 })).toEqual(found);
              const expected = ids(found);
              expect(await catalog.count(search)).toBe(expected.length);
              expect(await walk(search, limit)).toEqual(expected);
            }
            const locked = model.search(filters, order, customer).length;
            expect(await catalog.count({ criteria: matching(filters).criteria, unlockedBy: customer })).toBe(
              model.search(filters, order).length - locked,
            );
          }
          for (const { source, search } of beginnings)
            expect(await catalog.suggest({ source, search })).toEqual(model.suggest(source, search));
        }),
        { numRuns: runs },
      );
    }, 300_000);

    /** Reads all pages by cursor. Returns the ids of all people. */
    async function walk(search: Search, limit: number): Promise<string[]> {
      const seen: string[] = [];
      for (let after: ReturnType<typeof positionOf> | undefined; ;) {
        const page = await catalog.search(search, { limit, after });
        seen.push(...ids(page));
        if (page.length < limit) return seen;
        after = positionOf(page.at(-1)!, search.order);
      }
    }
  });

  test('a person with a suppressed id, profile or e-mail address, a further one too, is not imported but counted, and a reindex leaves the person out', async () => {
    const [by, profile] = [randomUUID(), `https://www.profnet.example/in/${randomUUID()}`];
    const people = [
      person({ _id: by }),
      person({ profnet_url: `http://${profile.toUpperCase().slice('https://www.'.length)}/?from=search` }),
      person({ work_email: ` ${by}@X.example`.trim() }),
      person({ emails: ['other@x.example', `${by}@x.EXAMPLE`] }),
      person({ profnet_url: 'n/a', work_email: '-', emails: [] }),
      person(),
    ];
    await hold(people);
    await suppress(db, [
      ['id', by],
      ['profnet_url', profile],
      ['email', `${by}@x.example`],
    ]);
    const left = people.slice(4).map(({ _id }) => _id);
    expect(await catalog.reindex(() => undefined)).toBe(2);
    expect(ids(await catalog.search(everyone, { limit: 10 })).toSorted()).toEqual(left.toSorted());
    const report = await importPeople(db, catalog, {
      chunks: Readable.from([Buffer.from([...people.map((one) => JSON.stringify(one)), '[]'].join('\n'))]),
      format: 'ndjson',
      onBad: () => undefined,
      onProgress: () => undefined,
    });
    expect(report).toEqual({ loaded: 2, bad: 1, suppressed: 4, resumed_at_line: null, people: 2 });
    expect(ids(await catalog.search(everyone, { limit: 10 })).toSorted()).toEqual(left.toSorted());
  });
}
