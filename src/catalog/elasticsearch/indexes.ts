import type { Config } from '../../process/config.ts';
import type { Database } from '../../database/db.ts';
import { unavailable, type DomainError } from '../../errors.ts';
import { findCatalogState } from '../../queries/catalog/catalog-imports.ts';
import type { SearchNodes } from './cluster.ts';
import { ClusterRefusal } from './errors.ts';
import { isNamedFor, type Names } from './index-definitions.ts';

/**
 * What the functions for the catalog's Elasticsearch indexes need: the search cluster, the databases, the aliases of
 * the indexes, and the configuration.
 */
export interface Indexes {
  nodes: SearchNodes;
  db: Database;
  /**
   * The database for statements on the unlocks of all customers. An unlock means that a customer has paid to see a
   * person.
   */
  unlocks: Database;
  names: Names;
  config: Config;
}

/**
 * An Elasticsearch index that was found under an alias of the catalog: it has this alias, or its name equals the alias
 * or begins with it. It may not belong to the catalog (see `isOurs`).
 */
export interface FoundIndex {
  name: string;
  uuid: string;
  aliases: string[];
  /**
   * True if the service itself created this index. Its name must have the form that the service uses, and its mapping
   * must be strict.
   */
  isOurs: boolean;
  /** The blocks that are set on this index, i.e. what it forbids: `write`, `read`, `read_only`, … */
  blocks: string[];
  isClosed: boolean;
  createdAt: string;
}

/**
 * What an alias of the catalog points to: an index, `missing` if no index has the alias, or `foreign` if several
 * indexes have the alias or the service did not create the index.
 */
export type Standing = FoundIndex | 'missing' | 'foreign';

/**
 * Creates the error for a catalog whose index is missing, or whose alias belongs to an index that the service did not
 * create.
 */
export const catalogLost = (): DomainError =>
  unavailable('The prospect catalog is missing in its search cluster. Run an import to restore it', 5);

/**
 * Throws the given error, but replaces an error that means "index is missing". Use it after a call to the cluster:
 * `promise.catch(whenIndexMissing)`.
 * @throws DomainError `unavailable` if an index is missing, otherwise the given error
 */
export function whenIndexMissing(error: unknown): never {
  throw error instanceof ClusterRefusal && error.meaning === 'missing' ? catalogLost() : error;
}

/**
 * Returns all indexes that have this alias, or whose name equals the alias or begins with it. Closed and hidden indexes
 * are included.
 * @param patienceMs how long to retry (ms)
 */
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

/**
 * Returns the Elasticsearch index to which an alias points. Returns `missing` if no index has the alias. Returns
 * `foreign` if several indexes have it, or if the index was not created by this program.
 */
export function standingOf(found: FoundIndex[], alias: string): Standing {
  const [index, ...others] = found.filter(({ name, aliases }) => name === alias || aliases.includes(alias));
  if (!index) return 'missing';
  return index.isOurs && others.length === 0 ? index : 'foreign';
}

/** Returns true if an import into this catalog has ever finished. This is stored in Postgres. */
export const wasImported = async ({ db, names }: Pick<Indexes, 'db' | 'names'>): Promise<boolean> =>
  Boolean((await db.lookup((sql) => findCatalogState(sql, names.people)))?.imported_at);

/**
 * Calls `read` and returns its result. Returns `nothing` if the index does not exist because no import has ever
 * finished.
 * @param alias the alias that the read uses
 * @param nothing the result for a catalog without any import
 * @throws DomainError `unavailable` if the cluster cannot respond, or the index of an imported catalog is missing
 * @throws ClusterRefusal if the request itself is wrong
 */
export async function readCatalog<T>(indexes: Indexes, alias: string, read: () => Promise<T>, nothing: T): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ClusterRefusal)) throw error;
    const standing = standingOf(await findIndexes({ work: (call) => indexes.nodes.read(call) }, alias), alias);
    if (standing === 'foreign') throw catalogLost();
    // The index exists now. It was missing only for a moment, so the read is tried again.
    if (standing !== 'missing') return error.meaning === 'missing' ? read() : Promise.reject(error);
    if (await wasImported(indexes)) throw catalogLost();
    return nothing;
  }
}
