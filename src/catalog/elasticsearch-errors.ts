import { errors, type estypes } from '@elastic/elasticsearch';
import { DomainError, unavailable } from '../errors.ts';

/**
 * What an error of the cluster means:
 * - `wait`: the cluster cannot do it now; the catalog is as it was. It passes, or whoever runs the cluster ends it.
 * - `missing`: there is no index of that name.
 * - `refused`: the request does not fit the index. Either the index is not as the service made it, or the service is wrong.
 */
export type Meaning = 'wait' | 'missing' | 'refused';

/** By type, where the status does not tell. All else is `wait` from 500 on and for 429, and `refused` below. */
const meanings: Record<string, Meaning> = {
  // A block on writes, on reads or on metadata, set by hand; the one of a disk that is nearly full is 429.
  cluster_block_exception: 'wait',
  index_closed_exception: 'wait',
  // Our login is not accepted, or lacks a right: a matter of configuration, not of the catalog.
  security_exception: 'wait',
  // What a snapshot reads cannot be deleted.
  snapshot_in_progress_exception: 'wait',
  // The cluster has as many shards as it may have.
  validation_exception: 'wait',
  index_not_found_exception: 'missing',
};

/** What an answer with this status, and this type of error, means. */
export const meaningOf = (status: number, type: string | undefined): Meaning =>
  meanings[type ?? ''] ?? (status >= 500 || status === 429 || status === 401 ? 'wait' : 'refused');

/** The cluster answered a request with an error that waiting does not cure. */
export class Refusal extends Error {
  readonly meaning: Exclude<Meaning, 'wait'>;

  constructor(meaning: Exclude<Meaning, 'wait'>, message: string) {
    super(message);
    this.name = 'Refusal';
    this.meaning = meaning;
  }
}

/** Only a part of the shards has answered, or not all in time. */
class PartialAnswer extends Error {}

interface Shards {
  timed_out?: boolean;
  _shards?: Pick<estypes.ShardStatistics, 'total' | 'successful' | 'failed'>;
}

/**
 * Returns an answer that every shard has a part in: what a part of them found must not be taken for the whole.
 * @throws PartialAnswer, which means `wait`
 */
export function whole<T extends Shards>(answer: T): T {
  const { timed_out = false, _shards: { total, successful, failed } = { total: 0, successful: 0, failed: 0 } } = answer;
  if (timed_out || failed > 0 || successful < total)
    throw new PartialAnswer(timed_out ? 'a search was cut off' : 'not all shards answered');
  return answer;
}

/** Refreshes what is at hand. Copies that are not there count as neither successful nor failed: they come with all that was written. */
export function refreshed<T extends Shards>(answer: T): T {
  const { _shards: shards } = answer;
  if (shards && shards.failed > 0) throw new PartialAnswer('not all shards were refreshed');
  return answer;
}

/** No answer came: too late, no connection, or one that broke. */
export const isSilence = (error: unknown): boolean =>
  error instanceof errors.TimeoutError ||
  error instanceof errors.ConnectionError ||
  error instanceof errors.NoLivingConnectionsError;

/** A node that was asked in vain: no answer in time says less than a connection that broke. */
export const isTimeout = (error: unknown): boolean => error instanceof errors.TimeoutError;

const statusOf = (error: unknown): number | undefined =>
  error instanceof errors.ResponseError ? error.statusCode : undefined;

/** The cluster cannot answer now. */
export function isTrouble(error: unknown): boolean {
  if (error instanceof errors.ResponseError) return meaningOf(error.statusCode ?? 500, typeOf(error)) === 'wait';
  return isSilence(error) || error instanceof errors.DeserializationError || error instanceof PartialAnswer;
}

const typeOf = (error: errors.ResponseError): string | undefined => {
  const body = error.body as { error?: { type?: string } } | undefined;
  return body?.error?.type;
};

/** Another node, or the next moment, may do better. Not when the cluster is overloaded (429), or refuses for as long as it is told to. */
export const mayBeBetterElsewhere = (error: unknown): boolean => isTrouble(error) && (statusOf(error) ?? 500) >= 500;

/** The queues of the cluster are full, whoever asks. */
export const isRejected = (error: unknown): boolean =>
  error instanceof errors.ResponseError && typeOf(error) === 'es_rejected_execution_exception';

/** Whoever asked does not wait for the answer any more. */
export const isAborted = (error: unknown): boolean => error instanceof errors.RequestAbortedError;

/** The client's errors hold whole requests, with people in them: what goes on is their name, status and type. */
export async function asDomainErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof PartialAnswer) throw doesNotAnswer(error);
    if (error instanceof DomainError || !(error instanceof errors.ElasticsearchClientError)) throw error;
    const { name } = error;
    if (!(error instanceof errors.ResponseError))
      throw isTrouble(error) ? doesNotAnswer(new Error(name)) : new Error(name);
    const type = typeOf(error);
    const text = [name, error.statusCode, type ?? ''].join(' ').trim();
    const meaning = meaningOf(error.statusCode ?? 500, type);
    throw meaning === 'wait' ? doesNotAnswer(new Error(text)) : new Refusal(meaning, text);
  }
}

const doesNotAnswer = (cause: Error): DomainError =>
  unavailable('The prospect catalog does not answer at the moment', 1, cause);
