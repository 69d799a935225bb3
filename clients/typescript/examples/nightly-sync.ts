// Keeps a copy of all contacts in an SQLite file, which can be read at any time. Run it every night, or every minute:
//
//   SALES_DATA_URL=https://… SALES_DATA_KEY=sda_… node nightly-sync.ts contacts.db
//
// The first run exports all contacts. Later runs read only what has changed since. It can be killed at any moment: rows
// and cursor are committed together, so the next run continues from there. Needs the scope contacts:read.
import { DatabaseSync } from 'node:sqlite';
import { CursorExpiredError, SalesData } from 'sales-data-client';

const [file = 'contacts.db'] = process.argv.slice(2);
const { SALES_DATA_URL: baseUrl = '', SALES_DATA_KEY: key = '' } = process.env;
const api = new SalesData({ baseUrl, key });

/** What the copy has of each contact. `external_id` is the id in your own system. */
const fields = ['id', 'external_id', 'first_name', 'last_name', 'work_email', 'job_title'] as const;
type Contact = Record<(typeof fields)[number], string | null>;

const db = new DatabaseSync(file, { timeout: 5_000 });
db.exec(`
  create table if not exists contacts (${fields.join(', ')}, primary key (id));
  create index if not exists contacts_own_id on contacts (external_id);
  create table if not exists feed (cursor text not null)`);
const insert = db.prepare(`insert or replace into contacts values (${fields.map(() => '?').join(', ')})`);
const save = (contact: Contact) => insert.run(...fields.map((field) => contact[field] ?? null));
const remove = db.prepare('delete from contacts where id = ?');

async function transaction(work: () => void | Promise<void>): Promise<void> {
  db.exec('begin immediate');
  try {
    await work();
    db.exec('commit');
  } catch (error) {
    db.exec('rollback');
    throw error;
  }
}

function saveCursor(cursor: string): void {
  db.exec('delete from feed');
  db.prepare('insert into feed values (?)').run(cursor);
}

/** Replaces the copy by an export. */
async function syncAll(): Promise<void> {
  // The cursor is from before the export: what changes meanwhile is read once more, and nothing is missed.
  const { nextCursor } = await api.request('listEvents', { body: { from: 'now' } });
  const exported = await api.exportContacts({ body: { format: 'ndjson', fields: [...fields] } });
  await transaction(async () => {
    db.exec('delete from contacts');
    for await (const line of linesOf(exported)) save(JSON.parse(line) as Contact);
    saveCursor(nextCursor!);
  });
}

async function* linesOf(bytes: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const piece of bytes) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== '') yield rest;
}

/** Reads what has changed. A program that runs all the time leaves out `wait` and the return: then this never ends. */
async function syncChanges(cursor: string): Promise<void> {
  const types = ['contact.created', 'contact.updated', 'contact.deleted'] as const;
  const options = { cursor, types: [...types], expand: true, limit: 500, wait: 0 };
  for await (const { events, cursor: next, hasMore } of api.events.follow(options)) {
    await transaction(() => {
      // With `expand` each event has its contact as it is now, or null if it has been deleted since.
      for (const { data, record } of events)
        if (record) save(record as Contact);
        else remove.run(data.id!);
      saveCursor(next);
    });
    if (!hasMore) return;
  }
}

const storedCursor = (): string | undefined =>
  (db.prepare('select cursor from feed').get() as { cursor: string } | undefined)?.cursor;

try {
  if (!storedCursor()) await syncAll();
  await syncChanges(storedCursor()!);
} catch (error) {
  if (!(error instanceof CursorExpiredError)) throw error;
  // The last run was too long ago, or the service was restored from a backup.
  console.log('Changes were missed: exporting all contacts anew');
  await syncAll();
  await syncChanges(storedCursor()!);
}
const { count } = db.prepare('select count(*) as count from contacts').get() as { count: number };
console.log(`The copy has ${count} contacts`);
