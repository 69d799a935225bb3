import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import { generatePeople } from '../catalog/generate.ts';
import { loadPeople } from '../catalog/load.ts';
import type { Database } from '../db.ts';
import { DomainError } from '../errors.ts';
import { unfinishedImports } from '../queries/catalog-imports.ts';

const count = 5_000;
const seed = 1;
/** By which an interrupted load of them is recognised. */
const source = 'people of the demo';
/** Longest wait for another load, and time between two looks at it. */
const patienceMs = 120_000;
const pollMs = 250;

/**
 * Fills the catalog, whichever engine keeps it, with people who do not exist, unless somebody is in it already. Waits while
 * another process loads it: with people of the demo until it ends, with others until there are some.
 * @returns how many people it holds
 * @throws DomainError `unavailable`, or `conflict` when another load is under way for too long
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
  const unfinished = await db.search(unfinishedImports);
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
