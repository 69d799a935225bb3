import type { Database, SharedDatabase } from '../../database/db.ts';
import type { Prospect, Suggestion, SuggestionQuery } from '../../schemas/prospects.ts';
import {
  unkeyedDetail,
  type Catalog,
  type CatalogReads,
  type CatalogStatus,
  type CountedSearch,
  type Search,
  type PageWindow,
} from '../catalog.ts';
import { toProspect } from '../document.ts';
import { wordPatterns } from '../suggestions.ts';
import { isAfter, matching, orderBy } from './query.ts';
import { encode, eraseDocuments, readPeople, rebuildValues, refoldDocuments, writePeople } from './write.ts';

interface Row {
  id: string;
  person: Omit<Prospect, '_id'>;
}

const toProspects = (rows: Row[]): Prospect[] => rows.map(({ id, person }) => toProspect(id, person));

/**
 * In the service's own database, for up to a few hundred thousand people. Searches see every committed write at once.
 */
export function postgresCatalog(db: SharedDatabase): Catalog {
  return {
    engine: 'postgres',
    name: 'postgres',
    gates: [],
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
    write: (people) => writePeople(db, people),
    findStored: (ids) => db.lookup((sql) => selectStored(sql, ids)),
    people: () => readPeople(db),
    remove: (ids) => eraseDocuments(db, ids),
    finish: async () => {
      await rebuildValues(db);
      return db.search((sql) => count(sql, { criteria: [] }));
    },
    // Not in a transaction: PostgreSQL does not allow that.
    purge: async () => {
      await db.search((sql) => sql`vacuum prospects, prospect_values`);
    },
    reindex: async (progress) => {
      await refoldDocuments(db, progress);
      await rebuildValues(db);
      return db.search((sql) => count(sql, { criteria: [] }));
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
 * Returns the number of the disk file of `prospects`. It changes if the table is truncated, so an import notices that
 * its people are gone.
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
 * With `netNewFor`, subtracts the matching prospects that this customer has unlocked, which is faster than to check
 * each prospect.
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
