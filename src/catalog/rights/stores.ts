import { setTimeout as sleep } from 'node:timers/promises';
import { allCustomers } from '../../credentials/requester.ts';
import type { SharedDatabase } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import type { Catalog } from '../catalog.ts';
import { withImportLock, type StillHeld } from '../import/import-lock.ts';
import { postgresCatalog } from '../postgres/engine.ts';

export interface RightsServices {
  db: SharedDatabase;
  catalog: Catalog;
  notify: (text: string) => unknown;
}

/** For statements on the rows of all customers. */
export const ofAll = ({ db }: Pick<RightsServices, 'db'>) => db.for({ customerId: allCustomers }, null);

/**
 * The catalog in use first, then the one in PostgreSQL if that is another: people may have stayed there from before the
 * installation got its search cluster.
 */
export const storesOf = ({ db, catalog }: Pick<RightsServices, 'db' | 'catalog'>): Catalog[] =>
  catalog.engine === 'postgres' ? [catalog] : [catalog, postgresCatalog(db)];

/** Pause between two attempts to take the import lock (ms). */
const pauseMs = 500;

/** Waits until no import, removal or reindex runs, then calls `work` while none can start. */
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
