import type { errors, estypes } from '@elastic/elasticsearch';
import { DomainError, unavailable } from '../../errors.ts';
import { elasticsearch } from './package.ts';

/**
 * What an error of the search cluster means for the caller:
 * - `wait`: the cluster cannot run the request now and has changed nothing. A later retry may succeed, or an operator
 *   must act.
 * - `missing`: the index does not exist.
 * - `refused`: the request does not fit the index, so a retry does not help. The index is not as the service created
 *   it, or the service has a bug.
 */
export type Meaning = 'wait' | 'missing' | 'refused';

/**
 * Meanings of error types whose HTTP status is misleading. For others, 401, 429, and 500 or above mean `wait`, any
 * other status `refused`.
 */
const meanings: Record<string, Meaning> = {
  // A block on writes, reads or metadata that somebody has set. (The block of a nearly full disk has status 429.)
  cluster_block_exception: 'wait',
  index_closed_exception: 'wait',
  // The cluster rejects the service's credentials or permissions: the configuration is wrong, not the catalog.
  security_exception: 'wait',
  // An index cannot be deleted while a snapshot reads it.
  snapshot_in_progress_exception: 'wait',
  // The cluster has reached its limit of shards.
  validation_exception: 'wait',
  index_not_found_exception: 'missing',
};

export const meaningOf = (status: number, type: string | undefined): Meaning =>
  meanings[type ?? ''] ?? (status >= 500 || status === 429 || status === 401 ? 'wait' : 'refused');

/** The cluster rejected a request, and a later retry would not help. */
export class ClusterRefusal extends Error {
  readonly meaning: Exclude<Meaning, 'wait'>;

  constructor(meaning: Exclude<Meaning, 'wait'>, message: string) {
    super(message);
    this.name = 'Refusal';
    this.meaning = meaning;
  }
}

/** Some shards failed or did not respond in time. */
class PartialAnswer extends Error {}

interface Shards {
  timed_out?: boolean;
  _shards?: Pick<estypes.ShardStatistics, 'total' | 'successful' | 'failed'>;
}

/** @throws PartialAnswer if a shard failed or did not respond in time */
export function requireAllShards<T extends Shards>(answer: T): T {
  const { timed_out = false, _shards: { total, successful, failed } = { total: 0, successful: 0, failed: 0 } } = answer;
  if (timed_out || failed > 0 || successful < total)
    throw new PartialAnswer(timed_out ? 'the search timed out in the cluster' : 'not all shards responded');
  return answer;
}

/**
 * An offline copy of a shard has not failed: it gets all writes when it comes back.
 * @throws PartialAnswer if a shard failed
 */
export function requireRefreshed<T extends Shards>(answer: T): T {
  const { _shards: shards } = answer;
  if (shards && shards.failed > 0) throw new PartialAnswer('not all shards were refreshed');
  return answer;
}

/**
 * For a look-up by id (mget).
 * @throws PartialAnswer if a document could not be read, e.g. because its shard is still starting
 */
export function requireAllDocuments<T>(docs: readonly estypes.MgetResponseItem<T>[]): estypes.GetGetResult<T>[] {
  return docs.map((doc) => {
    if ('error' in doc) throw new PartialAnswer('not all documents were read');
    return doc;
  });
}

/** A timeout, no connection, or a broken one. */
export const isNoAnswer = (error: unknown): boolean =>
  error instanceof elasticsearch().errors.TimeoutError ||
  error instanceof elasticsearch().errors.ConnectionError ||
  error instanceof elasticsearch().errors.NoLivingConnectionsError;

export const isTimeout = (error: unknown): boolean => error instanceof elasticsearch().errors.TimeoutError;

/** The cluster is unavailable, so a later retry may succeed. */
export function isUnavailableError(error: unknown): boolean {
  if (error instanceof elasticsearch().errors.ResponseError)
    return meaningOf(error.statusCode ?? 500, typeOf(error)) === 'wait';
  return (
    isNoAnswer(error) || error instanceof elasticsearch().errors.DeserializationError || error instanceof PartialAnswer
  );
}

const typeOf = (error: errors.ResponseError): string | undefined => {
  const body = error.body as { error?: { type?: string } } | undefined;
  return body?.error?.type;
};

export const isAborted = (error: unknown): boolean => error instanceof elasticsearch().errors.RequestAbortedError;

/**
 * Converts errors of the client to our own, without the request and its personal data.
 * @throws DomainError `unavailable` if the cluster cannot respond now
 * @throws ClusterRefusal if it rejected the request
 */
export async function asDomainErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof PartialAnswer) throw doesNotAnswer(error);
    if (error instanceof DomainError || !(error instanceof elasticsearch().errors.ElasticsearchClientError))
      throw error;
    const { name } = error;
    if (!(error instanceof elasticsearch().errors.ResponseError))
      throw isUnavailableError(error) ? doesNotAnswer(new Error(name)) : new Error(name);
    const type = typeOf(error);
    const text = [name, error.statusCode, type ?? ''].join(' ').trim();
    const meaning = meaningOf(error.statusCode ?? 500, type);
    throw meaning === 'wait' ? doesNotAnswer(new Error(text)) : new ClusterRefusal(meaning, text);
  }
}

const doesNotAnswer = (cause: Error): DomainError =>
  unavailable('The prospect catalog does not answer at the moment', 1, cause);
