import type { Database } from '../../database/db.ts';
import { type Prospect, type TextField, textFields } from '../../schemas/prospects.ts';
import type { EncodedPerson } from '../catalog.ts';
import { toDocument, toProspect, type CatalogDocument } from '../document.ts';
import { SuppressedPeople } from '../rights/suppressed-people.ts';
import { groupSpellings, inBatches, type Spelling, type SuggestedValue } from '../suggestions.ts';
import { tokensOf } from './search-tokens.ts';

const batchSize = 1_000;

export const encode = (document: CatalogDocument): string => JSON.stringify(toRow(document));

export const writePeople = (db: Database, people: EncodedPerson[]): Promise<void> =>
  writeRows(
    db,
    people.map(({ bytes }) => bytes.toString()),
  );

async function writeRows(db: Database, rows: string[]): Promise<void> {
  await db.transaction(
    (sql) => sql`
      insert into prospects (
        id, person,
        first_name, last_name, job_title, job_company_name, job_company_industry,
        location_locality, location_region, location_country, location_postal_code,
        verification_status, score, date_verified, has_email, has_phone, tokens, match_keys
      )
      select
        id, person,
        first_name, last_name, job_title, job_company_name, job_company_industry,
        location_locality, location_region, location_country, location_postal_code,
        verification_status, score, date_verified, has_email, has_phone, tokens, match_keys
      from jsonb_to_recordset(${`[${rows.join(',')}]`}::text::jsonb) as given (
        id uuid, person jsonb,
        first_name text, last_name text, job_title text, job_company_name text, job_company_industry text,
        location_locality text, location_region text, location_country text, location_postal_code text,
        verification_status text, score smallint, date_verified timestamptz, has_email boolean, has_phone boolean, tokens text[],
        match_keys text[]
      )
      order by id
      on conflict (id) do update set
        person = excluded.person,
        first_name = excluded.first_name,
        last_name = excluded.last_name,
        job_title = excluded.job_title,
        job_company_name = excluded.job_company_name,
        job_company_industry = excluded.job_company_industry,
        location_locality = excluded.location_locality,
        location_region = excluded.location_region,
        location_country = excluded.location_country,
        location_postal_code = excluded.location_postal_code,
        verification_status = excluded.verification_status,
        score = excluded.score,
        date_verified = excluded.date_verified,
        has_email = excluded.has_email,
        has_phone = excluded.has_phone,
        tokens = excluded.tokens,
        match_keys = excluded.match_keys`,
  );
}

const toRow = (document: CatalogDocument): object => {
  const { id, person, folded, has_email, has_phone, keys } = document;
  const { verification_status, score, date_verified } = person;
  return {
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
  };
};

export async function eraseDocuments(db: Database, ids: string[]): Promise<number> {
  const { count } = await db.transaction((sql) => sql`delete from prospects where id = any(${ids}::uuid[])`);
  return count;
}

/**
 * Computes the search columns of all people again, in batches. Deletes those who are suppressed.
 * @param progress awaited after each batch; if it throws, the work ends with this error
 */
export async function refoldDocuments(
  db: Database,
  progress: (done: number, total: number) => Promise<void> | void,
): Promise<void> {
  const [{ total }] = await db.search((sql) => sql<[{ total: number }]>`select count(*) as total from prospects`);
  const suppressed = await SuppressedPeople.open(db);
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

export async function* readPeople(db: Database): AsyncGenerator<Prospect[]> {
  for (let last: string | undefined; ;) {
    const rows = await db.search(
      (sql) => sql<{ id: string; person: Omit<Prospect, '_id'> }[]>`
        select id, person
        from prospects
        where ${last === undefined ? sql`true` : sql`id > ${last}`}
        order by id
        limit ${batchSize}`,
    );
    if (rows.length === 0) return;
    yield rows.map(({ id, person }) => toProspect(id, person));
    last = rows.at(-1)!.id;
  }
}

/** Computes the suggested values again. Readers see either only old or only new ones. */
export async function rebuildValues(db: Database): Promise<void> {
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

/** Reads with a cursor on one connection and writes on another, so that only one batch is in memory. */
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

/** Skips existing rows, so it is safe to repeat after a lost connection. */
async function insertValues(db: Database, generation: number, values: SuggestedValue[]): Promise<void> {
  await db.transaction(
    (sql) => sql`
      insert into prospect_values (generation, member, folded, value, people, words)
      select ${generation}, member, folded, value, people, array_to_tsvector(words)
      from jsonb_to_recordset(${sql.json(values as never)}) as given (member text, folded text, value text, people bigint, words text[])
      on conflict do nothing`,
  );
}
