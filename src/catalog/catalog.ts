import type { Gate } from '../gate.ts';
import type { Requester } from '../requester.ts';
import type { Prospect, Suggestion, SuggestionQuery } from '../schemas/prospects.ts';
import type { Criterion } from './criteria.ts';
import type { CatalogDocument } from './document.ts';
import type { ProspectOrder, ProspectPosition } from './order.ts';

/** Which prospects, in which order. */
export interface Search {
  /** All of these hold. */
  criteria: Criterion[];
  order: ProspectOrder;
  /** Leaves out what this customer has unlocked. */
  netNewFor?: string | undefined;
}

/** A piece of what a search finds: after so many prospects, or after a position; not both. */
export interface Slice {
  limit: number;
  skip?: number;
  after?: ProspectPosition | undefined;
}

/** A person as an engine is sent it, in UTF-8. A load keeps these while they wait: objects would be a heap full soon. */
export interface EncodedPerson {
  id: string;
  bytes: Buffer;
}

/** How many prospects `page × limit` may reach; deeper by cursor only. */
export const deepestPage = 10_000;

/** What `catalog status` shows. */
export interface CatalogStatus {
  engine: 'postgres' | 'elasticsearch';
  people: number;
  suggestions: number;
  details: Record<string, string | number>;
}

/**
 * What is read of the people that customers look for. Two engines keep them, with the same answers to the same questions.
 * Whatever keeps an engine from answering comes out as DomainError `unavailable`, in bounded time.
 */
export interface CatalogReads {
  /** A slice of the prospects that match, unmasked, in the order asked for and then by id. */
  search(search: Search, slice: Slice): Promise<Prospect[]>;
  /** How many match, exactly. */
  count(search: Pick<Search, 'criteria' | 'netNewFor'>): Promise<number>;
  /** The prospects of these ids that exist, in no order. */
  find(ids: string[]): Promise<Prospect[]>;
  /** Values of a member (or of all) with words that begin so, the most frequent first, at most ten. */
  suggest(query: SuggestionQuery): Promise<Suggestion[]>;
}

/** The whole catalog. Its own reads are the service's, and count in nobody else's share. */
export interface Catalog extends CatalogReads {
  readonly engine: 'postgres' | 'elasticsearch';
  /** By which Postgres knows what imports have written to it. */
  readonly name: string;
  /** Where reads wait for a place before they are sent, for metrics. */
  readonly gates: readonly Gate[];
  /** Whether reads are refused at the moment without being sent, since the catalog's cluster did not answer. */
  readonly isRefusing: boolean;

  /** The reads as a requester makes them: they count in the customer's share, and end when the requester's signal is aborted. */
  for(requester: Requester): CatalogReads;

  /**
   * Makes the catalog know, for these prospects, who has unlocked them as Postgres tells it at some moment after the call;
   * `refresh` makes it seen.
   */
  syncUnlocks(ids: string[]): Promise<void>;
  /** Whatever was written before is seen by searches after. */
  refresh(): Promise<void>;
  /** Whether it can be searched and written to at the moment. */
  isUp(): Promise<boolean>;

  /**
   * Makes the catalog ready to be written to, whatever was done to it; called once before.
   * @param say is given what was mended
   * @returns the incarnation that is written to until the next call: another one, later, holds other people
   */
  prepare(say?: (text: string) => unknown): Promise<string>;
  /** What is written of a person, as text. */
  encode(document: CatalogDocument): string;
  /**
   * Writes people, replacing those of the same id, who has unlocked them staying; acknowledged when it resolves, and then
   * their bytes are no longer needed. Ids are distinct.
   */
  write(people: EncodedPerson[]): Promise<void>;
  /** Takes people out; their unlocks stay. Returns how many there were. */
  remove(ids: string[]): Promise<number>;
  /**
   * Ends a load: all that was written is seen, and the suggestions are true.
   * @returns how many people the catalog holds, counted in it
   * @throws DomainError `unavailable` also when what was written to is no longer what is searched
   */
  finish(): Promise<number>;
  /**
   * Derives everything anew from the people kept, and from the unlocks in Postgres, while the old goes on answering.
   * @param progress is waited for; what it throws ends the work
   * @returns how many people there are, counted in what was derived
   */
  reindex(progress: (done: number, total: number) => Promise<void> | void): Promise<number>;
  status(): Promise<CatalogStatus>;

  close(): Promise<void>;
}
