import type { Config } from '../../config.ts';
import type { Database } from '../../database/db.ts';
import { unavailable, type DomainError } from '../../errors.ts';
import { findCatalogState } from '../../queries/catalog-imports.ts';
import type { SearchNodes } from './cluster.ts';
import { ClusterRefusal } from './errors.ts';
import { isNamedFor, type Names } from './index-definitions.ts';

/** The services and names that functions on the catalog's indexes need. */
export interface Indexes {
  nodes: SearchNodes;
  db: Database;
  names: Names;
  config: Config;
}

/** An index that exists in the cluster and has one of the catalog's names or aliases. */
export interface FoundIndex {
  name: string;
  uuid: string;
  aliases: string[];
  /** Whether the service created this index: its name has the right form, and its mapping is strict. */
  isOurs: boolean;
  /** The blocks on this index, named as in its settings: `write`, `read`, `read_only`, … */
  blocks: string[];
  isClosed: boolean;
  createdAt: string;
}

/**
 * The result of resolving an alias that searches use: the catalog's index, `missing` if there is none, or `foreign` if
 * the alias leads to an index that the service did not create, or to several indexes.
 */
export type Standing = FoundIndex | 'missing' | 'foreign';

/**
 * Returns the error for a catalog that was imported, but whose index is now missing or was replaced by an index that
 * the service did not create.
 */
export const catalogLost = (): DomainError =>
  unavailable('The prospect catalog is missing in its search cluster. Run an import to restore it', 5);

/**
 * Rethrows an error of a read or write; if the index is missing, throws `unavailable` instead. Use it in `catch`.
 * @throws DomainError `unavailable` if the index is missing, otherwise the given error
 */
export function whenIndexMissing(error: unknown): never {
  throw error instanceof ClusterRefusal && error.meaning === 'missing' ? catalogLost() : error;
}

/**
 * Returns all indexes that have this alias, this name, or a name that begins with it, closed and hidden ones too.
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
 * Finds the index behind an alias. Returns the index, `missing` if there is none, or `foreign` if the service did not
 * create it or the alias has several indexes.
 */
export function standingOf(found: FoundIndex[], alias: string): Standing {
  const [index, ...others] = found.filter(({ name, aliases }) => name === alias || aliases.includes(alias));
  if (!index) return 'missing';
  return index.isOurs && others.length === 0 ? index : 'foreign';
}

/** Returns whether an import of this catalog has ever finished, as Postgres recorded it. */
export const wasImported = async ({ db, names }: Pick<Indexes, 'db' | 'names'>): Promise<boolean> =>
  Boolean((await db.lookup((sql) => findCatalogState(sql, names.people)))?.imported_at);

/**
 * Runs a read of the catalog. If the index is missing, returns `nothing` for a catalog that was never imported, and
 * throws `unavailable` for one that was imported.
 * @param alias the alias that the read uses
 * @param nothing the result for a catalog that was never imported
 * @throws DomainError `unavailable`
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
