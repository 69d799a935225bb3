import type { Config } from '../config.ts';
import type { Database } from '../db.ts';
import { unavailable, type DomainError } from '../errors.ts';
import { knownCatalog } from '../queries/catalog-imports.ts';
import type { SearchNodes } from './elasticsearch-cluster.ts';
import { Refusal } from './elasticsearch-errors.ts';
import { isNamedFor, type Names } from './elasticsearch-index.ts';

/** What is needed to look after the catalog's indexes. */
export interface Indexes {
  nodes: SearchNodes;
  db: Database;
  names: Names;
  config: Config;
}

/** An index of the cluster that stands under the catalog's names. */
export interface FoundIndex {
  name: string;
  uuid: string;
  aliases: string[];
  /** The service made it: it has such a name, and takes no other fields than ours. */
  isOurs: boolean;
  /** Blocks on it, as settings name them: `write`, `read`, `read_only`, … */
  blocks: string[];
  isClosed: boolean;
  createdAt: string;
}

/** What stands where searches look: an index of ours, none, or something that the service did not make. */
export type Standing = FoundIndex | 'missing' | 'foreign';

/** A catalog that was imported, and of which nothing is found, or something else. */
export const lost = (): DomainError =>
  unavailable('The prospect catalog cannot be found in its cluster; an import makes it anew', 5);

/** What an index that is gone means to whoever was writing to it or reading it. */
export function whenGone(error: unknown): never {
  throw error instanceof Refusal && error.meaning === 'missing' ? lost() : error;
}

/** What stands under an alias and the names of the indexes behind it, closed ones too. */
export async function findIndexes(
  nodes: Pick<SearchNodes, 'work'>,
  alias: string,
  patienceMs?: number,
): Promise<FoundIndex[]> {
  const request = {
    index: [alias, `${alias}-*`],
    ignore_unavailable: true,
    expand_wildcards: ['open', 'closed', 'hidden'],
    filter_path: [
      '*.aliases',
      '*.mappings.dynamic',
      '*.settings.index.uuid',
      '*.settings.index.blocks',
      '*.settings.index.creation_date',
      '*.settings.index.verified_before_close',
    ],
  } satisfies Parameters<Parameters<Parameters<SearchNodes['work']>[0]>[0]['indices']['get']>[0];
  const found = await nodes.work((client, options) => client.indices.get(request, options), patienceMs);
  return Object.entries(found).map(([name, { aliases = {}, mappings, settings }]) => {
    const { uuid, creation_date, blocks = {}, ...more } = settings!.index!;
    return {
      name,
      uuid: uuid!,
      aliases: Object.keys(aliases),
      isOurs: isNamedFor(name, alias) && mappings?.dynamic === 'strict',
      blocks: Object.entries(blocks).flatMap(([block, isSet]) => (String(isSet) === 'true' ? [block] : [])),
      isClosed: String(more['verified_before_close']) === 'true',
      createdAt: String(creation_date),
    };
  });
}

/** What searches by this alias find among these. */
export function standingOf(found: FoundIndex[], alias: string): Standing {
  const [index, ...others] = found.filter(({ name, aliases }) => name === alias || aliases.includes(alias));
  if (!index) return 'missing';
  return index.isOurs && others.length === 0 ? index : 'foreign';
}

/** Whether an import of the catalog has ever ended. */
export const wasImported = async ({ db, names }: Pick<Indexes, 'db' | 'names'>): Promise<boolean> =>
  Boolean((await db.lookup((sql) => knownCatalog(sql, names.people)))?.imported_at);

/**
 * Runs a read of the catalog. A refused one is looked into: a catalog that was imported and cannot be found is a fault of
 * the cluster, one that never was is empty.
 * @param alias that is read
 * @param nothing the result for an empty catalog
 * @throws DomainError `unavailable`; Refusal, where the request itself is wrong
 */
export async function readCatalog<T>(indexes: Indexes, alias: string, read: () => Promise<T>, nothing: T): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const standing = standingOf(await findIndexes({ work: (call) => indexes.nodes.read(call) }, alias), alias);
    if (standing === 'foreign') throw lost();
    // It stood there a moment before, or does a moment after.
    if (standing !== 'missing') return error.meaning === 'missing' ? read() : Promise.reject(error);
    if (await wasImported(indexes)) throw lost();
    return nothing;
  }
}
