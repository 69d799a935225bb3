import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import { importPeople } from '../catalog/import/import-people.ts';
import type { Database } from '../database/db.ts';
import { DomainError } from '../errors.ts';
import { listUnfinishedImports } from '../queries/catalog/catalog-imports.ts';
import { generatePeople } from './generate-people.ts';

const count = 5_000;
const seed = 1;
/**
 * Name under which the database stores the progress of the demo's import. An interrupted import is resumed by this
 * name.
 */
const source = 'people of the demo';
/** Maximum time to wait until another process has finished its import (ms). */
const patienceMs = 120_000;
/** Pause between two attempts to import (ms). */
const pollMs = 250;

/**
 * Imports generated people into the prospect catalog. Does nothing if the catalog already contains people. If another
 * process is importing, waits and tries again.
 * @returns the number of people in the catalog
 * @throws DomainError `unavailable` if the catalog is unavailable; `conflict` if the import of another process takes
 *   too long
 */
export async function loadDemoCatalog(db: Database, catalog: Catalog): Promise<number> {
  for (const start = performance.now(); ; await sleep(pollMs)) {
    try {
      return await loadUnlessFilled(db, catalog);
    } catch (error) {
      const isTaken = error instanceof DomainError && error.code === 'conflict';
      if (!isTaken || performance.now() - start > patienceMs) throw error;
    }
  }
}

async function loadUnlessFilled(db: Database, catalog: Catalog): Promise<number> {
  const unfinished = await db.search(listUnfinishedImports);
  const people = await catalog.count({ criteria: [] });
  if (people > 0 && unfinished.every((load) => load.source !== source)) return people;
  await importPeople(db, catalog, {
    chunks: Readable.from(lines()),
    format: 'ndjson',
    source,
    onBad: () => undefined,
    onProgress: () => undefined,
  });
  return catalog.count({ criteria: [] });
}

/** Yields generated people as NDJSON text, 100 lines at a time. */
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
