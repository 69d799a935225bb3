import { Readable } from 'node:stream';
import type { Catalog } from '../catalog/catalog.ts';
import { generatePeople } from '../catalog/generate.ts';
import { loadPeople } from '../catalog/load.ts';
import type { Database } from '../db.ts';
import { importOverview } from '../queries/catalog-imports.ts';

const count = 5_000;
const seed = 1;
/** By which an interrupted load of them is recognised. */
const source = 'people of the demo';

/**
 * Fills the catalog, whichever engine keeps it, with people who do not exist, unless somebody is in it already.
 * @returns how many people it holds
 * @throws DomainError `unavailable`, or `conflict` when another load is under way
 */
export async function loadDemoCatalog(db: Database, catalog: Catalog): Promise<number> {
  const { unfinished } = await db.search(importOverview);
  const people = await catalog.count({ criteria: [] });
  if (people > 0 && unfinished.every((load) => load.source !== source)) return people;
  await loadPeople(db, catalog, {
    chunks: Readable.from(lines()),
    format: 'ndjson',
    source,
    onBad: () => undefined,
    onProgress: () => undefined,
  });
  return catalog.count({ criteria: [] });
}

/** As `catalog generate` writes them, a hundred at a time. */
function* lines(): Generator<Buffer> {
  let text = '';
  let made = 0;
  for (const person of generatePeople(count, seed)) {
    text += `${JSON.stringify(person)}\n`;
    made += 1;
    if (made % 100 !== 0) continue;
    yield Buffer.from(text);
    text = '';
  }
}
