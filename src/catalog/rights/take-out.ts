import type { Prospect } from '../../schemas/prospects.ts';
import { deleteHeldPeople, holdPeople, readHeldPeople } from '../../queries/catalog/held-people.ts';
import { insertRemovals } from '../../queries/catalog/removals.ts';
import { findErasures } from '../../queries/catalog/suppressions.ts';
import { findUnlockingCustomers } from '../../queries/catalog/unlocks.ts';
import { markRemovalRequested } from '../../queries/crm/removal-requests.ts';
import { clearUnlockResults } from '../../queries/jobs/unlock-results.ts';
import { withLastWrites } from '../../queries/records/last-writes.ts';
import { toDocument } from '../document.ts';
import { ofAll, storesOf, type RightsServices } from './stores.ts';
import type { SuppressedPeople } from './suppressed-people.ts';

export interface Effects {
  /** People who were deleted from a catalog. */
  deleted: number;
  /** People who were taken out of the catalog and can come back. */
  held: number;
  /** Customers who had unlocked a person, and were told of the removal now. */
  told: number;
  contacts: number;
  results: number;
}

export const noEffects: Readonly<Effects> = { deleted: 0, held: 0, told: 0, contacts: 0, results: 0 };

export const sumOf = (one: Effects, other: Effects): Effects => ({
  deleted: one.deleted + other.deleted,
  held: one.held + other.held,
  told: one.told + other.told,
  contacts: one.contacts + other.contacts,
  results: one.results + other.results,
});

/**
 * Erases people everywhere, who must be suppressed already. The catalog comes last: as long as it has a person, an
 * interrupted erasure can be found and repeated. Contacts stay, with a note.
 */
export async function erasePeople(services: RightsServices, ids: readonly string[]): Promise<Effects> {
  if (ids.length === 0) return noEffects;
  let effects = { ...noEffects };
  const customers = await ofAll(services).search((sql) => findUnlockingCustomers(sql, ids as string[]));
  const erasures = await ofAll(services).search((sql) => findErasures(sql, ids));
  for (const [customerId, unlocked] of byCustomer(customers))
    effects = sumOf(effects, await eraseOfCustomer(services, customerId, unlocked, erasures));
  await services.db.transaction((sql) => deleteHeldPeople(sql, ids));
  const deleted = await removeFromStores(services, ids);
  return { ...effects, deleted };
}

function byCustomer(customers: Map<string, string[]>): Map<string, string[]> {
  const unlocked = new Map<string, string[]>();
  for (const [prospectId, customerIds] of customers)
    for (const id of customerIds) unlocked.set(id, [...(unlocked.get(id) ?? []), prospectId]);
  return unlocked;
}

/** In one transaction. */
const eraseOfCustomer = (
  { db }: RightsServices,
  customerId: string,
  prospectIds: readonly string[],
  erasures: ReadonlyMap<string, string>,
): Promise<Effects> =>
  db.for({ customerId }, 'command').transaction((sql) =>
    withLastWrites(sql, customerId, async (last) => {
      // Rows of jobs are locked before the customer's records, as workers do.
      const results = await clearUnlockResults(sql, customerId, prospectIds);
      const contacts = await markRemovalRequested(sql, customerId, prospectIds, last);
      const removed = await insertRemovals(sql, customerId, prospectIds, erasures);
      for (const id of removed) last.removed(id);
      return { ...noEffects, told: removed.length, contacts: contacts.length, results };
    }),
  );

async function removeFromStores(services: RightsServices, ids: readonly string[]): Promise<number> {
  let deleted = 0;
  for (const store of storesOf(services)) {
    deleted += await store.remove(ids as string[]);
    await store.refresh();
  }
  return deleted;
}

/** Takes people who are only suppressed out of the catalog, and keeps them for the time when that is lifted. */
export async function hold(services: RightsServices, people: readonly Prospect[]): Promise<Effects> {
  if (people.length === 0) return noEffects;
  await services.db.transaction((sql) => holdPeople(sql, people));
  await removeFromStores(
    services,
    people.map(({ _id }) => _id),
  );
  return { ...noEffects, held: people.length };
}

/**
 * Writes held people who are not suppressed any more back to the catalog, unless it has them again.
 * @returns how many were held
 */
export async function release({ db, catalog }: RightsServices, suppressed: SuppressedPeople): Promise<number> {
  let released = 0;
  for (const people of await readHeld(db)) {
    const free = people.filter((person) => !suppressed.has(person));
    if (free.length === 0) continue;
    const ids = free.map(({ _id }) => _id);
    await catalog.prepare();
    const stored = new Set(await catalog.findStored(ids));
    const missing = free.filter(({ _id }) => !stored.has(_id));
    const encode = (person: Prospect) => ({ id: person._id, bytes: Buffer.from(catalog.encode(toDocument(person))) });
    if (missing.length > 0) await catalog.write(missing.map(encode));
    await catalog.refresh();
    await db.transaction((sql) => deleteHeldPeople(sql, ids));
    released += free.length;
  }
  return released;
}

/** Returns all held people, in batches. They are few: who is erased is not held. */
export const readHeld = (db: RightsServices['db']): Promise<Prospect[][]> =>
  db.search(async (sql) => {
    const batches: Prospect[][] = [];
    for await (const people of readHeldPeople(sql)) batches.push(people);
    return batches;
  });
