import type { SharedDatabase } from '../../database/db.ts';
import { lowestId } from '../../database/wire-types.ts';
import { listUnlockedIds } from '../../queries/catalog/removals.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import type { StillHeld } from '../import/import-lock.ts';
import { ofAll, storesOf, whenNoImportRuns, type RightsServices } from './stores.ts';
import { SuppressedPeople } from './suppressed-people.ts';
import { erasePeople, hold, noEffects, readHeld, sumOf, type Effects } from './take-out.ts';

/**
 * Makes the catalog agree with the suppressions once more, when no import runs that began before them. Then recounts
 * the suggestions, and deletes what the engines still store of removed people.
 * @param withUnlocks also looks for erased people among all unlocks: after an older backup was restored
 */
export const sweepCatalog = (services: RightsServices, withUnlocks = false): Promise<Effects> =>
  whenNoImportRuns(services, async (stillHeld) => {
    const suppressed = await SuppressedPeople.open(services.db);
    let effects = await sweepStores(services, suppressed, stillHeld);
    effects = sumOf(effects, await sweepHeld(services, suppressed));
    if (withUnlocks) effects = sumOf(effects, await sweepUnlocks(services, suppressed, stillHeld));
    for (const store of storesOf(services)) {
      await stillHeld();
      await store.finish();
      await store.purge();
    }
    await forgetStatistics(services.db);
    return effects;
  });

async function sweepStores(
  services: RightsServices,
  suppressed: SuppressedPeople,
  stillHeld: StillHeld,
): Promise<Effects> {
  let effects: Effects = noEffects;
  for (const store of storesOf(services))
    for await (const people of store.people()) {
      await stillHeld();
      const found = people.filter((person) => suppressed.has(person));
      const [erased, others] = split(found, suppressed);
      effects = sumOf(effects, await erasePeople(services, idsOf(erased)));
      // What is left in a former catalog is older than what the catalog has or had.
      if (store === services.catalog) effects = sumOf(effects, await hold(services, others));
      else await store.remove(idsOf(others));
    }
  return effects;
}

async function sweepHeld(services: RightsServices, suppressed: SuppressedPeople): Promise<Effects> {
  const held = (await readHeld(services.db)).flat();
  return erasePeople(services, idsOf(split(held, suppressed)[0]));
}

const batchSize = 10_000;

async function sweepUnlocks(
  services: RightsServices,
  suppressed: SuppressedPeople,
  stillHeld: StillHeld,
): Promise<Effects> {
  let effects: Effects = noEffects;
  for (let after = lowestId; ;) {
    await stillHeld();
    const ids = await ofAll(services).search((sql) => listUnlockedIds(sql, after, batchSize));
    const erased = ids.filter((id) => suppressed.isErased({ _id: id, work_email: '', emails: [], profnet_url: null }));
    effects = sumOf(effects, await erasePeople(services, erased));
    if (ids.length < batchSize) return effects;
    after = ids.at(-1)!;
  }
}

const idsOf = (people: readonly Prospect[]): string[] => people.map(({ _id }) => _id);

function split(people: readonly Prospect[], suppressed: SuppressedPeople): [erased: Prospect[], others: Prospect[]] {
  const erased = people.filter((person) => suppressed.isErased(person));
  return [erased, people.filter((person) => !erased.includes(person))];
}

/** The planner's statistics contain samples of values: those of people who are gone, until they are taken anew. */
const forgetStatistics = (db: SharedDatabase) => db.transaction((sql) => sql`analyze job_results, held_people`);
