import { setTimeout as sleep } from 'node:timers/promises';
import type { Database, SharedDatabase } from '../database/db.ts';
import { textFields } from '../schemas/prospects.ts';
import type { Prospect, TextField, Suggestion, SuggestionQuery } from '../schemas/prospects.ts';
import {
  unkeyedDetail,
  type Catalog,
  type CatalogReads,
  type CatalogStatus,
  type CountedSearch,
  type Search,
  type PageWindow,
} from './catalog.ts';
import { toDocument, groupSpellings, inBatches, wordPatterns } from './document.ts';
import type { CatalogDocument, Spelling, SuggestedValue } from './document.ts';
import { readSuppressedPeople } from './suppressed-people.ts';
import { tokensOf, isAfter, matching, orderBy } from './postgres-search.ts';
import { allCustomers } from '../access/credentials.ts';
import { DomainError } from '../errors.ts';
import { constant } from '../filters/sql.ts';
import { withImportLock, type StillHeld } from './import-lock.ts';

const batchSize = 1_000;

const columns = {
  id: 'uuid',
  person: 'jsonb',
  ...(Object.fromEntries(textFields.map((field) => [field, 'text'])) as Record<TextField, string>),
  verification_status: 'text',
  score: 'smallint',
  date_verified: 'timestamptz',
  has_email: 'boolean',
  has_phone: 'boolean',
  tokens: 'text[]',
  match_keys: 'text[]',
};

const columnNames = Object.keys(columns).join(', ');
const typedColumns = Array.from(Object.entries(columns), (column) => column.join(' ')).join(', ');
const newValues = Array.from(Object.keys(columns), (name) => `${name} = excluded.${name}`).join(', ');

async function writeRows(db: Database, rows: string[]): Promise<void> {
  await db.transaction(
    (sql) => sql`
      insert into prospects (${constant(sql, columnNames)})
      select ${constant(sql, columnNames)}
      from jsonb_to_recordset(${`[${rows.join(',')}]`}::text::jsonb) as given (${constant(sql, typedColumns)})
      order by id
      on conflict (id) do update
      set ${constant(sql, newValues)}`,
  );
}

function encode(document: CatalogDocument): string {
  const { id, person, folded, has_email, has_phone, keys } = document;
  const { verification_status, score, date_verified } = person;
  return JSON.stringify({
    id,
    person,
    ...folded,
    verification_status,
    score,
    date_verified,
    has_email,
    has_phone,
    tokens: tokensOf(document),
    match_keys: keys,
  });
}

async function eraseDocuments(db: Database, ids: string[]): Promise<number> {
  const { count } = await db.transaction((sql) => sql`delete from prospects where id = any(${ids}::uuid[])`);
  return count;
}

async function refoldDocuments(db: Database, progress: (done: number, total: number) => Promise<void> | void) {
  const [{ total }] = await db.search((sql) => sql<[{ total: number }]>`select count(*) as total from prospects`);
  const suppressed = await readSuppressedPeople(db);
  let done = 0;
  for await (const people of readPeople(db)) {
    const leaving = people.filter((person) => suppressed.has(person));
    await eraseDocuments(
      db,
      leaving.map(({ _id }) => _id),
    );
    const staying = people.filter((person) => !leaving.includes(person));
    await writeRows(
      db,
      staying.map((person) => encode(toDocument(person))),
    );
    await progress((done += people.length), Math.max(total, done));
  }
}

async function* readPeople(db: Database): AsyncGenerator<Prospect[]> {
  for (let last: string | undefined; ;) {
    const rows = await db.search(
      (sql) => sql<Row[]>`
        select id, person
        from prospects
        where ${last === undefined ? sql`true` : sql`id > ${last}`}
        order by id
        limit ${batchSize}`,
    );
    if (rows.length === 0) return;
    yield toProspects(rows);
    last = rows.at(-1)!.id;
  }
}

async function rebuildValues(db: Database): Promise<void> {
  const generation = await db.transaction(async (sql) => {
    await sql`delete from prospect_values where generation <> (select values_generation from catalog_state)`;
    const [state] = await sql<[{ values_generation: number }]>`select values_generation from catalog_state`;
    return state.values_generation + 1;
  });
  // Written as new rows; then all readers are switched to them in one transaction.
  for (const field of textFields) await writeValues(db, generation, field);
  await db.transaction(async (sql) => {
    await sql`update catalog_state set values_generation = ${generation}`;
    await sql`delete from prospect_values where generation <> ${generation}`;
  });
  // The next search needs current statistics, and indexes without a list of new entries, which each look-up would read.
  // Autovacuum would come only later. Not in a transaction: PostgreSQL does not allow that.
  await db.search((sql) => sql`vacuum (analyze) prospects, prospect_values`);
}

async function writeValues(db: Database, generation: number, field: TextField): Promise<void> {
  await db.search(async (sql) => {
    const folded = sql(field);
    const value = sql`(person ->> ${field}::text) collate "C"`;
    const spellings = sql<Spelling[]>`
      select folded, value, count(*) as people
      from (select ${folded} as folded, ${value} as value from prospects where ${folded} <> '') person
      group by folded, value
      order by folded, value`;
    const values = groupSpellings(field, oneByOne(spellings.cursor(batchSize)));
    for await (const batch of inBatches(values, batchSize)) await insertValues(db, generation, batch);
  });
}

async function* oneByOne<T>(batches: AsyncIterable<T[]>): AsyncGenerator<T> {
  for await (const batch of batches) yield* batch;
}

async function insertValues(db: Database, generation: number, values: SuggestedValue[]): Promise<void> {
  await db.transaction(
    (sql) => sql`
      insert into prospect_values (generation, member, folded, value, people, words)
      select ${generation}, member, folded, value, people, array_to_tsvector(words)
      from jsonb_to_recordset(${sql.json(values as never)}) as given (member text, folded text, value text, people bigint, words text[])
      on conflict do nothing`,
  );
}

interface Row {
  id: string;
  person: Omit<Prospect, '_id'>;
}

const toProspects = (rows: Row[]): Prospect[] => rows.map(({ id, person }) => ({ _id: id, ...person }));

/**
 * Opens the catalog in the service's own database, for up to a few hundred thousand people. Searches see every
 * committed write at once.
 */
export function postgresCatalog(db: SharedDatabase): Catalog {
  const finish = async (): Promise<number> => {
    await rebuildValues(db);
    return db.search((sql) => count(sql, { criteria: [] }));
  };
  return {
    engine: 'postgres',
    name: 'postgres',
    limiters: [],
    ...reads(db),
    for: (requester) => reads(db.for(requester, null)),

    // Nothing to copy or refresh: searches read the table of unlocks and see all committed rows.
    syncUnlocks: async () => undefined,
    refresh: async () => undefined,
    isUp: () =>
      db
        .lookup((sql) => sql`select 1`)
        .then(
          () => true,
          () => false,
        ),

    prepare: () => db.lookup(incarnationOf),
    encode,
    write: (people) =>
      writeRows(
        db,
        people.map(({ bytes }) => bytes.toString()),
      ),
    findStored: (ids) => db.lookup((sql) => selectStored(sql, ids)),
    people: () => readPeople(db),
    remove: (ids) => eraseDocuments(db, ids),
    finish,
    // Not in a transaction: PostgreSQL does not allow that.
    purge: async () => {
      await db.search((sql) => sql`vacuum prospects, prospect_values`);
    },
    reindex: async (progress) => {
      await refoldDocuments(db, progress);
      return finish();
    },
    status: () => db.search(selectStatus),
    close: async () => undefined,
  };
}

const reads = (db: Database): CatalogReads => ({
  search: async (search, window) => toProspects(await db.search((sql) => selectPage(sql, search, window))),
  count: (search) => db.search((sql) => count(sql, search)),
  find: async (ids) =>
    toProspects(await db.lookup((sql) => sql<Row[]>`select id, person from prospects where id = any(${ids}::uuid[])`)),
  suggest: (query) => db.search((sql) => selectSuggestions(sql, query)),
});

type Sql = Parameters<Parameters<Database['search']>[0]>[0];

/**
 * Returns the number of the disk file of `prospects`. It changes when the table is truncated, so an import notices that
 * its people are lost.
 */
async function incarnationOf(sql: Sql): Promise<string> {
  const [{ file }] = await sql<[{ file: number }]>`select pg_relation_filenode('prospects')::bigint as file`;
  return String(file);
}

async function selectStored(sql: Sql, ids: string[]): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`select id from prospects where id = any(${ids}::uuid[])`;
  return rows.map(({ id }) => id);
}

function selectPage(sql: Sql, search: Search, { limit, skip = 0, after }: PageWindow): Promise<Row[]> {
  return sql<Row[]>`
    select p.id, p.person
    from prospects p
    where ${matching(sql, search)} ${after ? sql`and ${isAfter(sql, search.order, after)}` : sql``}
    order by ${orderBy(sql, search.order)}
    limit ${limit}
    offset ${skip}`;
}

/**
 * Counts matching prospects. For `netNewFor`, subtracts those that this customer has unlocked, which is faster than a
 * check of each prospect.
 */
async function count(sql: Sql, { criteria, netNewFor, unlockedBy }: CountedSearch): Promise<number> {
  const isMatch = matching(sql, { criteria });
  const unlocked = (customerId: string) => sql`(
    select count(*)
    from unlocks u
    join prospects p on p.id = u.prospect_id
    where u.customer_id = ${customerId}::uuid and ${isMatch}
  )`;
  const [row] = await sql<[{ count: number }]>`
    select
      ${unlockedBy === undefined ? sql`(select count(*) from prospects p where ${isMatch})` : unlocked(unlockedBy)}
      - ${netNewFor === undefined ? sql`0` : unlocked(netNewFor)} as count`;
  return row.count;
}

async function selectSuggestions(sql: Sql, { source, search = '' }: SuggestionQuery): Promise<Suggestion[]> {
  const patterns = wordPatterns(search);
  if (!patterns) return [];
  // Words only contain letters, marks and digits. In quotes they cannot be read as operators.
  const prefixes = patterns.map((word) => `'${word}':*`).join(' & ');
  return sql<Suggestion[]>`
    select member as type, value
    from prospect_values
    where generation = (select values_generation from catalog_state)
      ${source === 'all' ? sql`` : sql`and member = ${source}`}
      ${prefixes === '' ? sql`` : sql`and words @@ ${prefixes}::tsquery`}
    order by people desc, value collate "C", member
    limit 10`;
}

async function selectStatus(sql: Sql): Promise<CatalogStatus> {
  const [row] = await sql<[{ people: number; suggestions: number; unkeyed: number; bytes: number }]>`
    select
      (select count(*) from prospects) as people,
      (select count(*) from prospect_values where generation = (select values_generation from catalog_state)) as suggestions,
      (select count(*) from prospects where match_keys is null) as unkeyed,
      pg_total_relation_size('prospects') as bytes`;
  return {
    engine: 'postgres',
    people: row.people,
    suggestions: row.suggestions,
    details: { bytes: row.bytes, ...unkeyedDetail(row.unkeyed) },
  };
}

export interface RightsServices {
  db: SharedDatabase;
  catalog: Catalog;
  notify: (text: string) => unknown;
}

export const databaseOfAllCustomers = ({ db }: Pick<RightsServices, 'db'>) =>
  db.for({ customerId: allCustomers }, null);

/**
 * Returns every catalog that can contain people: the one in use and, if that is a search cluster, also the one in
 * PostgreSQL. People from earlier may remain there.
 */
export const storesOf = ({ db, catalog }: Pick<RightsServices, 'db' | 'catalog'>): Catalog[] =>
  catalog.engine === 'postgres' ? [catalog] : [catalog, postgresCatalog(db)];

const pauseMs = 500;

export async function whenNoImportRuns<T>(
  { db, notify }: Pick<RightsServices, 'db' | 'notify'>,
  work: (stillHeld: StillHeld) => Promise<T>,
): Promise<T> {
  for (let isTold = false; ; isTold = true) {
    try {
      return await withImportLock(db, work);
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== 'conflict') throw error;
      if (!isTold) notify('waiting for the import, removal or reindex of the catalog that is running');
    }
    await sleep(pauseMs);
  }
}
