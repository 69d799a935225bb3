import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { withImportLock } from '../../src/catalog/import-lock.ts';
import { removeSuppression } from '../../src/catalog/privacy.ts';
import { toIdentifier } from '../../src/queries/jobs/catalog-imports.ts';
import { unlockPeople } from '../../src/queries/jobs/unlocks.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { person, writePeople } from '../catalog/people.ts';
import { temporaryFolder } from '../setup/at-end.ts';
import type { TestApp } from '../setup/app.ts';
import { runCommand } from '../setup/cli.ts';
import { readJournal } from '../setup/journal.ts';

const folder = await temporaryFolder();

const name = () => randomUUID().slice(0, 8);
/** Returns a person whom no other test uses. */
export const unique = (more: Partial<Prospect> = {}): Prospect => {
  const own = name();
  return person({
    first_name: `Zara${own}`,
    work_email: `${own}@work.example`,
    emails: [`${own}@work.example`, `${own}@home.example`],
    profnet_url: `https://profnet.example/in/${own}`,
    mobile_phone: '+44 20 7946 0999',
    source: 'Chamber of commerce',
    collected_at: '2026-01-02T03:04:05.678Z',
    ...more,
  });
};

/** All rows of the database, as text, by table. Without statistics, logs of transactions and dead rows. */
async function dumpOf({ owner }: TestApp): Promise<Record<string, string>> {
  const tables = await owner<{ name: string }[]>`
    select relname as name
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r'`;
  const dumps = await Promise.all(
    tables.map(async ({ name }) => {
      const [row] = await owner<
        [{ text: string | null }]
      >`select string_agg(t::text, ' ') as text from ${owner(name)} t`;
      return [name, row.text ?? ''] as const;
    }),
  );
  return Object.fromEntries(dumps);
}

/** What the tests of requests use: the commands, and the people in the catalog. */
export interface Requests {
  environment: Record<string, string>;
  privacy: (...words: string[]) => Promise<{ code: number | null; stderr: string; answer: any }>; // eslint-disable-line typescript/no-explicit-any -- each command has its own
  load: (people: Prospect[]) => Promise<void>;
  stored: (people: Prospect[]) => Promise<string[]>;
}

/** @param own where the catalog is, if it is not in the database */
export function requestsTo(app: TestApp, own: Record<string, string> = {}): Requests {
  // A deletion waits until searches that began before it have timed out.
  const timeout = { ELASTICSEARCH_TIMEOUT_MS: '2000' };
  const environment = { PATH: process.env['PATH']!, DATABASE_URL: app.url, ...own, ...timeout };
  const privacy = async (...words: string[]) => {
    const { code, stdout, stderr } = await runCommand(['privacy', ...words, '--json'], environment);
    return { code, stderr, answer: stdout === '' ? undefined : JSON.parse(stdout) };
  };
  const load = async (people: Prospect[]) => {
    await app.catalog.prepare();
    await writePeople(app.catalog, people);
    await app.catalog.finish();
  };
  const stored = async (people: Prospect[]) =>
    (await app.catalog.find(people.map(({ _id }) => _id))).map(({ _id }) => _id).toSorted();
  return { environment, privacy, load, stored };
}

/** Requests of people, whichever engine holds the catalog. */
export function testRequests(app: TestApp, own: Record<string, string> = {}): void {
  const { privacy, load, stored } = requestsTo(app, own);

  test('erase leaves the person only in records of customers, which find lists; who had unlocked the person learns of it; repeated, it changes nothing', async () => {
    const [ada, colleague] = [unique(), unique()];
    await load([ada, colleague]);
    const [customer, other] = [await app.customer(), await app.customer()];
    const { id: jobId } = (
      await app.owner<[{ id: string }]>`
        insert into jobs (customer_id, type, status, sync_crm, pool, total, cost, reserved, charged, started_at, finished_at, progress)
        values (${customer.id}, 'unlock_contacts', 'COMPLETED', true, 'subscription', 1, 1, 1, 1, now(), now(),
          ${app.owner.json({ after: { id: ada._id, values: [ada.first_name] } })})
        returning id`
    )[0];
    await app.db.transaction((sql) => unlockPeople(sql, customer.id, [ada], jobId));
    await app.catalog.syncUnlocks([ada._id]);
    await app.owner`
      insert into job_results (customer_id, job_id, position, item, status, charged, result)
      values (${customer.id}, ${jobId}, 1, ${ada._id}, 'succeeded', 1, ${app.owner.json(ada)})`;
    const created = await customer.post('/contacts', {
      first_name: ada.first_name,
      last_name: 'L',
      work_email: ada.work_email,
      phone_numbers: [],
    });
    const contact = created.body.data.id as string;
    await app.owner`update contacts set prospect_id = ${ada._id} where id = ${contact}`;
    const listed = await customer.post('/prospect/list', {
      all_contacts: true,
      filters: { first_name: [ada.first_name] },
    });
    expect(listed.body).toMatchObject([{ source: ada.source, collected_at: ada.collected_at }]);

    const erased = await privacy('erase', '--email', ada.emails[1]!.toUpperCase(), '--case', 'C-1');
    expect(erased).toMatchObject({
      code: 0,
      answer: { suppressed: 4, deleted: 1, held: 0, told: 1, contacts: 1, results: 1 },
    });
    expect(await stored([ada, colleague])).toEqual([colleague._id]);
    const texts = [ada.first_name.toLowerCase(), ada.work_email, ada.emails[1]!, ada.profnet_url!];
    const holding = Object.entries(await dumpOf(app))
      .filter(([, text]) => texts.some((one) => text.toLowerCase().includes(one)))
      .map(([table]) => table);
    expect(holding).toEqual(['contacts']);
    expect('ELASTICSEARCH_URL' in own ? await dumpOfIndexes(own) : '').not.toContain(ada.first_name.toLowerCase());
    expect((await app.catalog.suggest({ source: 'first_name', search: ada.first_name })).length).toBe(0);

    const { answer } = await privacy('find', '--email', ada.work_email);
    expect(answer).toMatchObject({
      people: [],
      unlocks: [{ customer_id: customer.id, prospect_id: ada._id }],
      contacts: [{ customer_id: customer.id, id: contact, removal_requested_at: expect.any(String) }],
      suppressions: [{ kind: 'email', case_ref: 'C-1', reason: 'erasure' }],
    });
    expect((await customer.post('/prospect/removals', {})).body).toEqual([
      { id: ada._id, removed_at: expect.any(String) },
    ]);
    expect((await other.post('/prospect/removals', {})).body).toEqual([]);
    expect((await customer.post('/prospect/removals', { since: '2999-01-01T00:00:00Z' })).body).toEqual([]);
    const marked = await customer.post('/contacts/list', { filters: { removal_requested_at: { is_null: false } } });
    expect(marked.body).toMatchObject([{ id: contact, work_email: ada.work_email }]);
    expect(await readJournal(app.owner, customer.id, 'command')).toMatchObject([
      { type: 'contact.updated', data: { id: contact, changed: ['removal_requested_at'] } },
      { type: 'prospect.removed', data: { id: ada._id } },
    ]);
    expect((await privacy('erase', '--email', ada.emails[1]!, '--case', 'C-1')).answer).toMatchObject({
      suppressed: 0,
      deleted: 0,
      told: 0,
      contacts: 0,
      results: 0,
    });
  });

  test('a job that had chosen a suppressed person unlocks the others only; lifting the suppression shows the person again', async () => {
    const [ada, bob] = [unique(), unique()];
    await load([ada, bob]);
    const customer = await app.customer();
    const taken = await privacy('suppress', '--profile', ada.profnet_url!, '--reason', 'objection');
    expect(taken).toMatchObject({ code: 0, answer: { held: 1, deleted: 0 } });
    expect(await stored([ada, bob])).toEqual([bob._id]);
    const { unlocked, suppressed } = await app.db.transaction((sql) =>
      unlockPeople(sql, customer.id, [ada, bob], randomUUID()),
    );
    expect([[...unlocked], [...suppressed]]).toEqual([[bob._id], [ada._id]]);
    expect((await privacy('find', '--id', ada._id)).answer.people).toMatchObject([{ _id: ada._id, place: 'held' }]);
    expect((await privacy('lift', '--profile', ada.profnet_url!)).answer).toEqual({ lifted: 1, shown: 1 });
    expect(await app.catalog.find([ada._id])).toEqual([ada]);
    expect((await privacy('export', '--id', ada._id)).answer.people).toEqual([{ place: 'catalog', ...ada }]);
  });

  test('erase waits for an import that runs, and keeps out whom it has brought back under another id', async () => {
    const ada = unique();
    const again = { ...ada, _id: randomUUID() };
    await load([ada]);
    let erasing: ReturnType<typeof privacy> | undefined;
    await withImportLock(app.db, async () => {
      erasing = privacy('erase', '--id', ada._id, '--case', 'C-2');
      await expect.poll(() => stored([ada]), { timeout: 60_000 }).toEqual([]);
      await writePeople(app.catalog, [again]);
      await app.catalog.refresh();
    });
    // Only the given id says who is meant; whoever shares an address with that person is held.
    expect(await erasing).toMatchObject({ code: 0, answer: { deleted: 1, held: 1 } });
    expect(await stored([ada, again])).toEqual([]);
  });

  test('lifting a suppression waits for a reindex that runs, which would lose a person who is written back meanwhile', async () => {
    const ada = unique();
    await load([ada]);
    await privacy('suppress', '--id', ada._id, '--reason', 'objection');
    const told = Promise.withResolvers<unknown>();
    const services = { db: app.db, catalog: app.catalog, notify: told.resolve };
    let lifting: ReturnType<typeof removeSuppression> | undefined;
    await withImportLock(app.db, async () => {
      lifting = removeSuppression(services, toIdentifier('id', ada._id), { operator: 'test' });
      await Promise.race([told.promise, lifting]);
      expect(await stored([ada])).toEqual([]);
    });
    expect(await lifting).toEqual({ lifted: 1, shown: 1 });
    expect(await stored([ada])).toEqual([ada._id]);
  });

  test('apply of a saved list erases whom a restored backup has brought back, and refuses the list of another installation', async () => {
    const ada = unique();
    await load([ada]);
    await privacy('erase', '--id', ada._id, '--case', 'C-3');
    const { answer: saved } = await privacy('list');
    expect(JSON.stringify(saved)).not.toContain(ada.work_email);
    await app.owner`delete from suppressions where case_ref = 'C-3'`;
    await load([ada]);
    const path = join(folder, 'list.json');
    await writeFile(path, JSON.stringify(saved));
    expect(await privacy('apply', path)).toMatchObject({ code: 0, answer: { suppressed: 4, deleted: 1 } });
    expect(await stored([ada])).toEqual([]);
    await writeFile(path, JSON.stringify({ ...saved, secret_check: '0'.repeat(16) }));
    expect((await privacy('apply', path)).code).toBe(1);
    await writeFile(path, '{}');
    expect((await privacy('apply', path)).code).toBe(2);
  });
}

/** All documents of a catalog's indexes, as text. */
async function dumpOfIndexes({
  ELASTICSEARCH_URL: url,
  ELASTICSEARCH_INDEX: index,
}: Record<string, string>): Promise<string> {
  await fetch(`${url}/${index}*/_refresh`, { method: 'POST' });
  return (await fetch(`${url}/${index}*/_search?size=10000`)).text();
}
