import type { Config } from '../../process/config.ts';
import type { Database } from '../../database/db.ts';
import { unavailable, type DomainError } from '../../errors.ts';
import { findCatalogState } from '../../queries/catalog/catalog-imports.ts';
import type { ClusterClient } from './cluster.ts';
import { ClusterRefusal } from './errors.ts';
import { isNamedFor, type Names } from './index-definitions.ts';

export interface Indexes {
  nodes: ClusterClient;
  db: Database;
  /** For statements on the unlocks of all customers. */
  unlocks: Database;
  names: Names;
  config: Config;
}

/**
 * An index that has the catalog's alias, or whose name equals or begins with it. Others may have created it (see `isOurs`).
 */
export interface FoundIndex {
  name: string;
  uuid: string;
  aliases: string[];
  /** The service created it: its name has our form, and its mapping is strict. */
  isOurs: boolean;
  /** What the index forbids: `write`, `read`, `read_only`, … */
  blocks: string[];
  isClosed: boolean;
  createdAt: string;
}

/**
 * The index of an alias, `missing` if none has it, or `foreign` if several have it or the service did not create it.
 */
export type Standing = FoundIndex | 'missing' | 'foreign';

/** The catalog's index is missing, or its alias belongs to an index that the service did not create. */
export const catalogLost = (): DomainError =>
  unavailable('The prospect catalog is missing in its search cluster. Run an import to restore it', 5);

/**
 * Use it after a call: `promise.catch(whenIndexMissing)`.
 * @throws DomainError `unavailable` if the error means that an index is missing, else the error
 */
export function whenIndexMissing(error: unknown): never {
  throw error instanceof ClusterRefusal && error.meaning === 'missing' ? catalogLost() : error;
}

/**
 * Returns all indexes, also closed and hidden ones, that have this alias, or a name that equals or begins with it.
 * @param patienceMs how long to retry (ms)
 */
export async function findIndexes(
  nodes: Pick<ClusterClient, 'work'>,
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
  } satisfies Parameters<Parameters<Parameters<ClusterClient['work']>[0]>[0]['indices']['get']>[0];
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

export function standingOf(found: FoundIndex[], alias: string): Standing {
  const [index, ...others] = found.filter(({ name, aliases }) => name === alias || aliases.includes(alias));
  if (!index) return 'missing';
  return index.isOurs && others.length === 0 ? index : 'foreign';
}

/** An import into this catalog has finished once, according to PostgreSQL. */
export const wasImported = async ({ db, names }: Pick<Indexes, 'db' | 'names'>): Promise<boolean> =>
  Boolean((await db.lookup((sql) => findCatalogState(sql, names.people)))?.imported_at);

/**
 * Calls `read`.
 * @param alias that the read uses
 * @param nothing the result if the index is missing because no import has ever finished
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
