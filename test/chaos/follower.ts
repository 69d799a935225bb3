import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { sendTo } from '../setup/over-http.ts';

/**
 * A script that keeps a copy of a customer's contacts and companies by the feed alone, and logs each event, until it is
 * killed. It then resumes at its saved cursor: `node follower.ts <file> <key> <url>...`. The rows of a page and the
 * cursor after it are committed together. An event that comes twice violates the primary key, and ends the process.
 */
const [file, key, ...urls] = process.argv.slice(2) as [string, string, ...string[]];
const db = new DatabaseSync(file, { timeout: 5_000 });
db.exec(`
  pragma journal_mode = wal;
  create table if not exists log (number integer primary key, id text not null unique, type text not null, record text not null, external_id text, changed text);
  create table if not exists copy (id text primary key, record text not null);
  create table if not exists feed (cursor text not null)`);
const log = db.prepare('insert into log (id, type, record, external_id, changed) values (?, ?, ?, ?, ?)');
const save = db.prepare('insert or replace into copy (id, record) values (?, ?)');
const remove = db.prepare('delete from copy where id = ?');

interface Event {
  id: string;
  type: string;
  data: { id: string; external_id?: string | null; changed?: string[] };
  record: object | null;
}

function keep(events: readonly Event[], cursor: string): void {
  db.exec('begin immediate');
  for (const { id, type, data, record } of events) {
    log.run(id, type, data.id, data.external_id ?? null, data.changed?.toSorted().join() ?? null);
    if (record) save.run(data.id, JSON.stringify(record));
    else remove.run(data.id);
  }
  db.exec('delete from feed');
  db.prepare('insert into feed values (?)').run(cursor);
  db.exec('commit');
}

process.stdout.write('{}\n');
for (let n = 0; ; n += 1) {
  const stored = db.prepare('select cursor from feed').get() as { cursor: string } | undefined;
  const paginate = { limit: 1 + Math.floor(Math.random() * 500), ...stored };
  const answer = await sendTo({ url: urls[n % urls.length], key }, 'POST', '/events/list', {
    types: ['contact', 'company'].flatMap((noun) => ['created', 'updated', 'deleted'].map((verb) => `${noun}.${verb}`)),
    paginate,
    expand: true,
    wait: 1,
  }).catch(() => undefined);
  if (answer?.status === 200) keep(answer.body as Event[], answer.headers.get('x-next-cursor')!);
  else if (answer && ![429, 503].includes(answer.status))
    throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
  else await sleep(50);
}
