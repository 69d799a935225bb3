import type { Config } from '../../process/config.ts';
import type { SharedDatabase } from '../../database/db.ts';
import { unavailable } from '../../errors.ts';
import { allCustomers, serviceItself } from '../../credentials/requester.ts';
import type { Catalog } from '../catalog.ts';
import { ClusterClient } from './cluster.ts';
import { changeAliases, changeSettings, refresh, countAll } from './index-calls.ts';
import { namesOf, refreshIntervals, writeAlias } from './index-definitions.ts';
import { findIndexes, catalogLost, standingOf, wasImported, whenIndexMissing, type Indexes } from './indexes.ts';
import { purge } from './purge.ts';
import { readPeople } from './read-batches.ts';
import { reindex } from './reindex.ts';
import { createPeople, findTarget, type WriteTarget } from './write-target.ts';
import { reads } from './search.ts';
import { isUp, statusOf } from './status.ts';
import { syncPatienceMs, syncUnlocks } from './unlocks.ts';
import { rebuildValues } from './values.ts';
import { encode, erasePeople, findStored, writePeople } from './write.ts';

/** For many millions of people. Connects at the first read or write. */
export function elasticsearchCatalog(config: Config, db: SharedDatabase): Catalog {
  const nodes = new ClusterClient(config);
  const names = namesOf(config);
  const indexes: Indexes = { nodes, db, unlocks: db.for({ customerId: allCustomers }, null), names, config };
  /**
   * The index to which people are written, until the next `prepare` or `reindex`. Kept, because later writes must fail
   * if the index is lost, instead of going to another.
   */
  let target: WriteTarget | undefined;
  const known = async (): Promise<WriteTarget | undefined> => (target ??= await findTarget(indexes));
  const requireTarget = async (): Promise<WriteTarget> => {
    const found = await known();
    if (!found) throw catalogLost();
    return found;
  };
  return {
    engine: 'elasticsearch',
    name: names.people,
    gates: [nodes.gate],
    ...reads(indexes, nodes.for({ customerId: serviceItself })),
    for: (requester) => reads(indexes, nodes.for(requester)),

    syncUnlocks: (ids) => syncUnlocks(indexes, ids),
    refresh: () => refresh(nodes, [names.everywhere, names.people], syncPatienceMs),
    isUp: () => isUp(indexes),

    prepare: async () => {
      target = (await findTarget(indexes)) ?? (await createPeople(indexes));
      return target.uuid;
    },
    encode,
    write: async (people) => writePeople(indexes, (await requireTarget()).name, people),
    findStored: async (ids) => findStored(indexes, (await requireTarget()).name, ids),
    people: async function* () {
      if (!(await known()) && !(await wasImported(indexes))) return;
      const { name } = await requireTarget();
      await refresh(nodes, name);
      yield* readPeople(nodes, name);
    },
    remove: async (ids) => {
      if (!(await known()) && !(await wasImported(indexes))) return 0;
      const { name, isSearched } = await requireTarget();
      // The catalog was lost. An import that replaces it is running or was interrupted.
      if (!isSearched) throw catalogLost();
      return erasePeople(indexes, name, ids);
    },
    finish: async () => {
      if (!(await known()) && !(await wasImported(indexes))) return 0;
      const people = await finish(indexes, await requireTarget()).catch(whenIndexMissing);
      target = { ...target!, isSearched: true };
      return people;
    },
    purge: () => purge(indexes),
    reindex: async (progress) => {
      const old = (await findTarget(indexes)) ?? (await createPeople(indexes));
      const { people, index } = await reindex(indexes, old, progress).catch(whenIndexMissing);
      target = index;
      return people;
    },
    status: () => statusOf(indexes),
    close: () => nodes.close(),
  };
}

/**
 * Ends an import into an index: makes people visible to searches, computes suggested values, and lets searches use the
 * index if it replaces a lost one. Returns the number of people.
 * @throws DomainError `unavailable` if searches use another index by now
 */
async function finish(indexes: Indexes, { name, uuid, isSearched }: WriteTarget): Promise<number> {
  const { nodes, names, config } = indexes;
  await refresh(nodes, writeAlias(name));
  await changeSettings(nodes, name, { refresh_interval: refreshIntervals.atRest });
  await rebuildValues(nodes, names, config, undefined, name);
  if (!isSearched) await changeAliases(nodes, [{ add: { index: name, alias: names.people } }]);
  const standing = standingOf(await findIndexes(nodes, names.people), names.people);
  if (typeof standing === 'string' || standing.uuid !== uuid) throw replaced();
  return countAll(nodes, name);
}

const replaced = () =>
  unavailable(
    'The index that people were written to was replaced meanwhile, so searches use another one. Import again',
  );
