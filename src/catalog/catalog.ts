import type { Gate } from '../limits/gate.ts';
import type { Requester } from '../credentials/requester.ts';
import type { Prospect, Suggestion, SuggestionQuery } from '../schemas/prospects.ts';
import type { Criterion } from './criteria.ts';
import type { CatalogDocument } from './document.ts';
import type { ProspectOrder, ProspectPosition } from './order.ts';

export interface Search {
  /** A prospect must meet all of them. */
  criteria: Criterion[];
  order: ProspectOrder;
  /** Id of a customer whose unlocked prospects are left out. */
  netNewFor?: string | undefined;
}

/** What is counted: all who match, or those that a customer has not unlocked, or those that it has. */
export type CountedSearch = Pick<Search, 'criteria'> &
  ({ netNewFor?: string | undefined; unlockedBy?: never } | { netNewFor?: never; unlockedBy: string });

/** A page of at most `limit` prospects, after the first `skip` or after the position `after`, not both. */
export interface PageWindow {
  limit: number;
  skip?: number;
  after?: ProspectPosition | undefined;
}

/** A person as the UTF-8 bytes that are sent to an engine. As JavaScript objects, imports would take more memory. */
export interface EncodedPerson {
  id: string;
  bytes: Buffer;
}

/** Maximum product of page number and size. Later pages need a cursor. */
export const maxPageDepth = 10_000;

export interface CatalogStatus {
  engine: 'postgres' | 'elasticsearch';
  people: number;
  suggestions: number;
  details: Record<string, string | number>;
}

/**
 * Says in `catalog status` how many people an earlier release stored without keys (`match-keys.ts`), if any. They are
 * not found by profile URL and e-mail address until `catalog reindex`.
 */
export const unkeyedDetail = (people: number): Record<string, number> =>
  people === 0 ? {} : { 'not matched by profile and e-mail until a reindex': people };

/** Both engines return the same results, and throw `unavailable` if they do not respond in time. */
export interface CatalogReads {
  /** Returns one page, unmasked. Ties of the order are sorted by id. */
  search(search: Search, window: PageWindow): Promise<Prospect[]>;
  /** Exact. */
  count(search: CountedSearch): Promise<number>;
  /** In no particular order. Unknown ids are skipped. */
  find(ids: string[]): Promise<Prospect[]>;
  /**
   * Returns at most ten values of one text field, or of all, the most frequent first. Each word of the search text must
   * begin one of the value's words.
   */
  suggest(query: SuggestionQuery): Promise<Suggestion[]>;
}

/** Its own reads are for the service's internal work. For a customer's request, use those that `for` returns. */
export interface Catalog extends CatalogReads {
  readonly engine: 'postgres' | 'elasticsearch';
  /** PostgreSQL stores the state of this catalog under this name. */
  readonly name: string;
  readonly gates: readonly Gate[];

  /**
   * Limits concurrent reads, shared fairly between customers. If the requester's signal aborts, its reads are
   * cancelled.
   */
  for(requester: Requester): CatalogReads;

  /**
   * Copies all unlocks of these prospects that were committed before the call from PostgreSQL. Searches see them after
   * `refresh`.
   */
  syncUnlocks(ids: string[]): Promise<void>;
  /** Makes all earlier writes visible to later searches. */
  refresh(): Promise<void>;
  /** Whether the catalog can be searched and written to now. */
  isUp(): Promise<boolean>;

  /**
   * Prepares for writes. Call it once before the first write.
   * @returns the catalog's incarnation. If a later call returns another, people who were written earlier may be missing
   * @throws DomainError `unavailable` if an operator must act first: the index is blocked, closed, or not behind its alias
   */
  prepare(): Promise<string>;
  /** Encodes a person for `write`: a row as JSON, or a bulk operation. */
  encode(document: CatalogDocument): string;
  /**
   * Adds people or replaces those with the same id, except their unlocks. When it resolves, all are stored.
   * @param people with distinct ids
   */
  write(people: EncodedPerson[]): Promise<void>;
  /** Returns the ids under which `write` would replace a person. Sees all who are written. */
  findStored(ids: string[]): Promise<string[]>;
  /** Yields all people who are written, in batches, unmasked. */
  people(): AsyncIterable<Prospect[]>;
  /** Returns the number of removed people. PostgreSQL keeps their unlocks. */
  remove(ids: string[]): Promise<number>;
  /**
   * Deletes what the engine still stores of removed people, as far as it can: old versions of rows, of documents and of
   * suggestions. Call it after `finish`.
   */
  purge(): Promise<void>;
  /**
   * Ends an import: makes all people visible to searches, and counts the suggested values again.
   * @returns the number of people in the catalog
   * @throws DomainError `unavailable` if the catalog does not respond in time, or was replaced during the import
   */
  finish(): Promise<number>;
  /**
   * Rebuilds the search index from its people and the unlocks in PostgreSQL. Searches use the old one until then.
   * @param progress awaited after each batch; if it throws, the reindex ends with this error
   * @returns the number of people in the new index
   */
  reindex(progress: (done: number, total: number) => Promise<void> | void): Promise<number>;
  status(): Promise<CatalogStatus>;

  close(): Promise<void>;
}
