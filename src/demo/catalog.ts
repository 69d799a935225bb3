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
/** The import's progress is stored under this name, so an interrupted import is resumed. */
const source = 'people of the demo';
/** How long to wait for another process's import (ms). */
const patienceMs = 120_000;
const pollMs = 250;

/**
 * Imports generated people into an empty catalog. Waits while another process imports.
 * @returns the number of people in the catalog
 * @throws DomainError `unavailable` if the catalog is; `conflict` if the import of another process takes too long
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
