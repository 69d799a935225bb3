import { setTimeout as sleep } from 'node:timers/promises';
import { changeSettings } from './index-calls.ts';
import { isNamedFor } from './index-definitions.ts';
import { findIndexes, type Indexes } from './indexes.ts';
import { deleteIndexes } from './write-target.ts';

/** Deletes old suggestions, and merges away the documents of removed people, which an index keeps until a merge. */
export async function purge({ nodes, names }: Indexes): Promise<void> {
  // Waits for searches that still use the old suggestions.
  await sleep(nodes.maxReadMs);
  const values = await findIndexes(nodes, names.values);
  const unused = values.filter(
    ({ name, aliases }) => !aliases.includes(names.values) && isNamedFor(name, names.values),
  );
  await deleteIndexes(nodes, unused);
  const people = (await findIndexes(nodes, names.people)).filter(
    ({ name, isOurs, isClosed }) => isOurs && !isClosed && isNamedFor(name, names.people),
  );
  for (const { name: index } of people) await mergeDeletions({ nodes }, index);
}

/** Removes deleted documents from the files of an index. By default, a merge leaves up to a tenth there. */
async function mergeDeletions({ nodes }: Pick<Indexes, 'nodes'>, index: string): Promise<void> {
  const allow = (allowed: number | null) => ({ 'index.merge.policy.expunge_deletes_allowed': allowed });
  await changeSettings(nodes, index, allow(0));
  await nodes.work((client, options) =>
    client.indices.forcemerge({ index, only_expunge_deletes: true }, { ...options, requestTimeout: mergeMs }),
  );
  await changeSettings(nodes, index, allow(null));
}

/** How long a merge may take (ms). */
const mergeMs = 3_600_000;
