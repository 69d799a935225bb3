// Keeps companies, contacts and deals the same here (the table `records` of an SQLite file) and in the service, both ways:
//   SALES_DATA_URL=https://… SALES_DATA_KEY=sda_… node two-way-sync.ts crm.db
// A change here sets `body` (null: deleted) and `dirty` = 1, and wins over one there. References are ids of the service, or
// `{external_id: own}`. It can be killed at any moment and run again. The key needs all scopes of the three, and customer:read.
import { DatabaseSync } from 'node:sqlite';
import { SalesData } from 'sales-data-client';

const { SALES_DATA_URL: baseUrl = '', SALES_DATA_KEY: key = '' } = process.env;
const api = new SalesData({ baseUrl, key });
const db = new DatabaseSync(process.argv[2] ?? 'crm.db', { timeout: 30_000 });
db.exec(`create table if not exists records (kind, own, id, body, dirty default 1, primary key (kind, own));
  create index if not exists records_id on records (kind, id); create table if not exists feed (cursor)`);
const run = (sql: string, ...at: unknown[]) => db.prepare(sql).all(...(at as never[])) as Record<string, string>[];
const deal = 'name,priority,stage_id,user_id_assigned,estimated_closing_date,close_date,company_id,contacts_ids';
type Shown = { id: string; external_id?: string | null; company?: { id: string | null }; [name: string]: unknown };
const kinds: Record<string, [name: string, list: string, fields: string]> = {
  company: ['Company', 'listCompanies', 'company_name,industry'],
  contact: ['Contact', 'listContacts', 'first_name,last_name,work_email,company'],
  opportunity: ['Opportunity', 'listOpportunities', deal],
};

async function send(kind: string, match: 'id' | 'external_id', what: string, isDeleted: 0 | 1): Promise<void> {
  const which = `dirty and (id is null) = ${Number(match !== 'id')} and (body is null) = ${isDeleted}`;
  const rows = run(`select * from records where kind = ? and ${which}`, kind);
  const items = rows.map(({ own, id, body }) => ({ ...JSON.parse(body ?? '{}'), [match]: id ?? own }));
  const results = await api.batch(`${what}${kinds[kind]![0]}Batch` as 'updateContactBatch', items, { match });
  for (const [i, { status, id, error }] of results.entries()) {
    const { own, body } = rows[i]!;
    const isGone =
      error?.code === 'not_found' && !error.errors?.some(({ path }) => !/^(\/id|\/external_id)?$/.test(path));
    if (status === 'failed' && !isGone) console.error(kind, own, JSON.stringify(error));
    else if (isDeleted) run('delete from records where kind = ? and own = ? and body is null', kind, own);
    else if (id)
      run('update records set id = ?, dirty = body is not ? where kind = ? and own = ?', id, body, kind, own);
  }
}

function receive(kind: string, { id, external_id, company, ...others }: Shown): void {
  const all = kinds[kind]![2].split(',').map((field) => [field, others[field]]);
  const body = Object.fromEntries(all.filter(([, value]) => value !== '')); // an empty text is refused where a name or address is
  if (company) body['company'] = company.id && { id: company.id };
  const own = run('select own from records where kind = ? and id = ?', kind, id)[0]?.['own'] ?? external_id ?? id;
  const sql =
    'insert into records values (?, ?, ?, ?, 0) on conflict do update set id = excluded.id, body = iif(dirty, body, excluded.body)';
  run(sql, kind, own, id, JSON.stringify(body));
}

for (const kind of Object.keys(kinds)) {
  await send(kind, 'external_id', 'upsert', 0);
  await send(kind, 'id', 'update', 0);
  for (const match of ['external_id', 'id'] as const) await send(kind, match, 'delete', 1);
}
if (run('select * from feed').length === 0) {
  const { nextCursor } = await api.request('listEvents', { body: { from: 'now' } });
  db.exec('begin');
  for (const [kind, [, list]] of Object.entries(kinds))
    for await (const record of api.each(list as 'listContacts')) receive(kind, record as Shown);
  run('insert into feed values (?)', nextCursor);
  db.exec('commit');
}
const { api_key: own } = await api.getCustomerSummary();
const start = run('select cursor from feed')[0]!['cursor'];
for await (const { events, cursor, hasMore } of api.events.follow({ cursor: start, expand: true, wait: 0 })) {
  // What this key has sent comes back as an echo.
  const theirs = events.filter(
    ({ type, data }) => Object.hasOwn(kinds, type.split('.')[0]!) && data.actor?.id !== own.id,
  );
  db.exec('begin immediate');
  for (const { type, data, record } of theirs)
    if (record) receive(type.split('.')[0]!, record as Shown);
    else {
      // What was changed here is made again, unless it was merged: its own id now names the record that stays.
      const which = data.merged_into ? 'true' : 'not dirty';
      for (const sql of [`delete from records where ${which}`, 'update records set id = null where true'])
        run(`${sql} and kind = ? and id = ?`, type.split('.')[0], data.id);
    }
  run('update feed set cursor = ?', cursor);
  db.exec('commit');
  if (!hasMore) break;
}
