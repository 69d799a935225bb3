import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Catalog } from '../../../src/catalog/catalog.ts';
import { importPeople, type ImportRequest } from '../../../src/catalog/import-people.ts';
import { PersonIds, uuidOfUrl } from '../../../src/catalog/parse-records.ts';
import { generatePeople } from '../../../src/commands/generate-people.ts';
import { listUnfinishedImports } from '../../../src/queries/jobs/catalog-imports.ts';
import { startApp } from '../../setup/app.ts';

const { db, catalog, owner } = await startApp();

const chunked = (text: string | Buffer, size: number): Readable => {
  const bytes = Buffer.from(text);
  return Readable.from(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size)),
  );
};

async function load(text: string | Buffer, more: Partial<ImportRequest> = {}, into: Catalog = catalog) {
  const faults: [number, string][] = [];
  const onBad: ImportRequest['onBad'] = (line, fault) => faults.push([line, fault]);
  const report = await importPeople(db, into, {
    chunks: chunked(text, 4_000),
    format: 'ndjson',
    onBad,
    onProgress: () => undefined,
    ...more,
  });
  return { ...report, faults };
}

/** A catalog that is gone after so many batches. */
function failingAfter(most: number): Catalog {
  let batches = 0;
  const gone = () => Promise.reject(new Error('gone'));
  return { ...catalog, write: (people) => ((batches += 1) > most ? gone() : catalog.write(people)) };
}

const byUrl = async (name: string) => (await catalog.find([uuidOfUrl(`https://p.example/in/${name}`)]))[0];
const idOfEmail = async (email: string) => (await PersonIds.open(db)).ofEmail(email).id;
const line = (name: string, more: object = {}) =>
  JSON.stringify({ profnet_url: `https://p.example/in/${name}`, first_name: name, ...more });

describe('NDJSON', () => {
  test('good lines are imported; bad lines are reported with their number and the reason', async () => {
    const lines = [
      '\ufeff' + line('a'),
      'not json',
      '',
      '[1]',
      '{"first_name": "nobody"}',
      line('b', { score: 101 }),
      line('c', { _id: 'x' }),
      line('d', { first_name: 7 }),
      line('e', { date_verified: '2026-02-30T00:00:00Z' }),
      line('f', { first_name: 'a\0' }),
      line('g', { verification_status: 'maybe' }),
      line('h', { first_name: 'x'.repeat(256) }),
      line('i', { emails: 'a@x.example; b@x.example' }),
    ];
    const report = await load(`${lines.join('\r\n')}\r\n`);
    expect(report).toMatchObject({ loaded: 2, bad: 10 });
    expect(report.faults.map(([number]) => number)).toEqual([2, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    expect(await byUrl('a')).toMatchObject({
      first_name: 'a',
      score: 0,
      verification_status: 'unverified',
      emails: [],
      mobile_phone: null,
    });
    expect((await byUrl('i'))!.emails).toEqual(['a@x.example', 'b@x.example']);
  });

  test('a line may say where its data comes from and when it was collected there', async () => {
    const from = { source: ' Chamber of commerce ', collected_at: '2026-03-14T10:26:53.5+01:00' };
    const lines = [
      line('from', from),
      line('empty', { source: '', collected_at: null }),
      line('long', { source: 'x'.repeat(121) }),
      line('when', { collected_at: '2026' }),
    ];
    const report = await load(lines.join('\n'));
    expect(report.faults).toEqual([
      [3, 'source must have at most 120 characters'],
      [4, 'collected_at must be an RFC 3339 date-time with an offset'],
    ]);
    expect(await byUrl('from')).toMatchObject({
      source: 'Chamber of commerce',
      collected_at: '2026-03-14T09:26:53.500Z',
    });
    expect(Object.keys((await byUrl('empty'))!)).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/^(source|collected_at)$/)]),
    );
  });

  test('the id is the given one, else derived from the trimmed lower-case profile URL, else from the e-mail address', async () => {
    // Python: uuid.uuid5(uuid.NAMESPACE_URL, 'https://example.com/in/ada').
    expect(uuidOfUrl('https://example.com/in/ada')).toBe('7b7691d0-e081-5afe-995a-bbabef46cdce');
    await load(
      [
        { profnet_url: ' HTTPS://Example.com/in/Ada ', work_email: 'x@x.example' },
        { profnet_url: '', work_email: ' ADA@example.com ' },
        { _id: 'AAAAAAAA-0000-4000-8000-000000000001', work_email: 'ada@example.com' },
      ]
        .map((one) => JSON.stringify(one))
        .join('\n'),
    );
    const found = await catalog.find([
      '7b7691d0-e081-5afe-995a-bbabef46cdce',
      await idOfEmail('ada@example.com'),
      'aaaaaaaa-0000-4000-8000-000000000001',
    ]);
    expect(found).toHaveLength(3);
  });

  test('the id from an e-mail address is a UUIDv8 that nobody can compute without the secret of the installation', async () => {
    // Python: hmac.new(bytes(range(32)), b'ada@example.com', 'sha256').hexdigest(), with the bits of RFC 9562 §5.8.
    const ids = new PersonIds(Buffer.from(Array.from({ length: 32 }, (_, i) => i)));
    expect(ids.ofEmail('ADA@example.com').id).toBe('5c820b4a-5aac-8f31-ab67-41825bfecb8e');
    const secrets = await owner<{ person_id_secret: Buffer }[]>`select person_id_secret from catalog_state`;
    expect(secrets.map(({ person_id_secret }) => person_id_secret.length)).toEqual([32]);
    expect(ids.ofEmail('ada@example.com').id).not.toBe(await idOfEmail('ada@example.com'));
  });

  test('two people with the same placeholder for a profile URL or an e-mail address stay two people', async () => {
    const placeholders = ['n/a', ' N/A ', '#N/A', '-', '—', '???', 'none', 'https://www.linkedin.com/in/'];
    const lines = placeholders.flatMap((placeholder, i) => [
      { first_name: `Ada${i}`, profnet_url: placeholder, work_email: `${i}@x.example` },
      { first_name: `Eve${i}`, profnet_url: placeholder, work_email: placeholder },
    ]);
    const report = await load([...lines, { work_email: 'none' }].map((one) => JSON.stringify(one)).join('\n'));
    expect(report).toMatchObject({ loaded: placeholders.length, bad: placeholders.length + 1 });
    for (const [, fault] of report.faults) expect(fault).toBe('needs one of _id, profnet_url, work_email');
    const found = await catalog.find(await Promise.all(placeholders.map((_, i) => idOfEmail(`${i}@x.example`))));
    expect(found.map(({ first_name }) => first_name).toSorted()).toEqual(placeholders.map((_, i) => `Ada${i}`));
  });

  test('if lines have the same id, the last one wins, however far apart they are', async () => {
    const lines = Array.from({ length: 5_000 }, (_, i) => line(`same-${i % 7}`, { score: i % 101 }));
    expect(await load(lines.join('\n'))).toMatchObject({ loaded: 5_000 });
    for (let i = 4_993; i < 5_000; i += 1) expect((await byUrl(`same-${i % 7}`))!.score).toBe(i % 101);
  });
});

describe('CSV', () => {
  test('the first line names the columns; quotes, commas and line breaks within quotes belong to the value', async () => {
    const text = [
      '\ufeffprofnet_url,first_name,job_title,emails,score,unknown',
      'https://p.example/in/csv1,"O""Neil, ""Pat""","Head of\nSales","a@x.example;b@x.example",7,',
      'https://p.example/in/csv2,Plain,5" pipes,,,',
      'https://p.example/in/csv3,too few',
      '"never closed,',
      'https://p.example/in/csv4,Last,"",,,"x"',
    ].join('\r\n');
    const report = await load(text, { format: 'csv' });
    expect(report).toMatchObject({ loaded: 3, bad: 2 });
    expect(report.faults.map(([number]) => number)).toEqual([5, 6]);
    expect(await byUrl('csv1')).toMatchObject({
      first_name: 'O"Neil, "Pat"',
      job_title: 'Head of\nSales',
      emails: ['a@x.example', 'b@x.example'],
      score: 7,
    });
    expect(await byUrl('csv2')).toMatchObject({ first_name: 'Plain', job_title: '5" pipes', score: 0, emails: [] });
    expect(await byUrl('csv4')).toMatchObject({ first_name: 'Last' });
  });

  test('a quote that is not closed within 1 MiB makes its line a bad one, and those behind it are read', async () => {
    const text = `first_name,work_email\n"open${'\n'.repeat(2 ** 20 + 1)}Eve,behind@x.example\n`;
    const report = await load(text, { format: 'csv' });
    expect(report).toMatchObject({ loaded: 1, bad: 1, faults: [[2, expect.stringContaining('quote')]] });
  });

  test.each([
    ['ends its lines with CR alone', `first_name,work_email\rAda,ada@x.example\rBob,bob@x.example\r`],
    ['names first_name twice', 'work_email,first_name, first_name \nada@x.example,Ada,Eda\n'],
    ['is not valid UTF-8', Buffer.from([0xff, 0x0a, 0x61, 0x0a])],
    ['has a quote that is never closed', '"first_name,work_email\nAda,ada@x.example\n'],
  ])(
    'a file whose first line %s is rejected, nobody is imported, and nothing is left to resume',
    async (fault, text) => {
      await expect(load(text, { format: 'csv', source: 'rejected' })).rejects.toThrow(fault);
      expect(await catalog.find([await idOfEmail('ada@x.example')])).toEqual([]);
      const unfinished = await db.lookup(listUnfinishedImports);
      expect(unfinished.map(({ source }) => source)).not.toContain('rejected');
    },
  );

  test('a resumed import uses the columns of the first line, even if blank lines come before it', async () => {
    const rows = Array.from({ length: 3_000 }, (_, i) => `https://p.example/in/blank${i},Name ${i}`);
    const text = `\n\nprofnet_url,first_name\n${rows.join('\n')}`;
    const options = { format: 'csv', source: 'blank' } as const;
    await expect(load(text, options, failingAfter(1))).rejects.toThrow('gone');
    const report = await load(text, options);
    expect(report).toMatchObject({ loaded: 3_000, bad: 0 });
    expect(report.resumed_at_line).toBeGreaterThan(3);
    expect((await byUrl('blank2999'))!.first_name).toBe('Name 2999');
  });
});

test('an interrupted import resumes after the last confirmed batch, and each person is stored as given, however late the bytes are read', async () => {
  const people = [...generatePeople(6_000, 11)];
  const text = `bad\n${people.map((one) => JSON.stringify(one)).join('\n')}`;
  await expect(load(text, { source: 'file' }, failingAfter(4))).rejects.toThrow('gone');
  const written: string[] = [];
  // An engine may read the bytes at any time during the write.
  const watching: Catalog = {
    ...catalog,
    write: async (some) => {
      written.push(...some.map(({ id }) => id));
      await sleep(Math.random() * 20);
      await catalog.write(some);
    },
  };
  const report = await load(text, { source: 'file' }, watching);
  expect(report).toMatchObject({ loaded: 6_000, bad: 1 });
  expect(report.resumed_at_line).toBeGreaterThan(1_000);
  expect(written.length).toBeLessThan(6_000);
  const stored = await catalog.find(people.map(({ _id }) => _id));
  expect(new Map(stored.map((one) => [one._id, one]))).toEqual(new Map(people.map((one) => [one._id, one])));
  expect(await load(text, { source: 'file' })).toMatchObject({ loaded: 6_000, resumed_at_line: null });
});

test('an interrupted import starts over and reports it if the table was emptied meanwhile', async () => {
  const text = [...generatePeople(3_000, 12)].map((one) => JSON.stringify(one)).join('\n');
  const notes: string[] = [];
  const more = { source: 'emptied', onNote: (note: string) => notes.push(note) };
  await expect(load(text, more, failingAfter(2))).rejects.toThrow('gone');
  await owner`truncate prospects`;
  expect(await load(text, more)).toMatchObject({ loaded: 3_000, resumed_at_line: null, people: 3_000 });
  expect(notes.join()).toContain('starting over');
});
