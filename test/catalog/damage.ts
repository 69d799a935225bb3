import { Readable } from 'node:stream';
import type { Catalog } from '../../src/catalog/catalog.ts';
import { namesOf } from '../../src/catalog/elasticsearch/indexes.ts';
import { importPeople, type ImportReport } from '../../src/catalog/import-people.ts';
import type { Database } from '../../src/database/db.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import type { TestApp } from '../setup/app.ts';

/**
 * Sends a request directly to the search cluster, not through the service. Returns the parsed body.
 * @throws Error if the status is not 2xx
 */
export async function askCluster(url: string, method: string, path: string, body?: object): Promise<unknown> {
  const answer = await fetch(`${url}/${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

/** Returns the names of the indexes that have an alias. */
export async function indexesBehind(url: string, alias: string): Promise<string[]> {
  const found = (await (await fetch(`${url}/_alias/${alias}`)).json()) as object;
  return 'error' in found ? [] : Object.keys(found);
}

/** Imports people as the command line does. Returns the report with the import's notes. */
export async function runImport(
  { db, catalog }: { db: Database; catalog: Catalog },
  people: Prospect[],
  source?: string,
): Promise<ImportReport & { notes: string[] }> {
  const notes: string[] = [];
  const report = await importPeople(db, catalog, {
    chunks: Readable.from(people.map((one) => Buffer.from(`${JSON.stringify(one)}\n`))),
    format: 'ndjson',
    source,
    onBad: (line, fault) => {
      throw new Error(`line ${line}: ${fault}`);
    },
    onProgress: () => undefined,
    onNote: (note) => notes.push(note),
  });
  return { ...report, notes };
}

/** Reads from the search cluster which customers have unlocked each person: customer ids by person id. */
export async function unlockedInCluster({ config }: Pick<TestApp, 'config'>): Promise<Record<string, string[]>> {
  const [url] = config.ELASTICSEARCH_URL!.split(',');
  const request = { size: 10_000, _source: ['unlocked_by'], query: { exists: { field: 'unlocked_by' } } };
  const { hits } = (await askCluster(url!, 'POST', `${namesOf(config).people}/_search`, request)) as {
    hits: { total: { value: number }; hits: { _id: string; _source: { unlocked_by: string[] } }[] };
  };
  if (hits.hits.length !== hits.total.value) throw new Error('more people than are compared at a time');
  return Object.fromEntries(hits.hits.map(({ _id, _source }) => [_id, _source.unlocked_by.toSorted()]));
}

/** Reads from Postgres which customers have unlocked each person of the catalog: customer ids by person id. */
export async function unlockedInPostgres({ db, catalog }: TestApp): Promise<Record<string, string[]>> {
  const rows = await db.lookup(
    (sql) => sql<{ prospect_id: string; customers: string[] }[]>`
      select prospect_id, array_agg(customer_id order by customer_id) as customers
      from unlocks
      group by prospect_id`,
  );
  const found = new Set<string>();
  for (let from = 0; from < rows.length; from += 1_000)
    for (const { _id } of await catalog.find(rows.slice(from, from + 1_000).map(({ prospect_id }) => prospect_id)))
      found.add(_id);
  return Object.fromEntries(
    rows.filter(({ prospect_id }) => found.has(prospect_id)).map((row) => [row.prospect_id, row.customers]),
  );
}
