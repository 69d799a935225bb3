import type { ImportState } from '../queries/catalog-imports.ts';
import { Arena } from './arena.ts';
import type { Catalog, EncodedPerson } from './catalog.ts';
import type { CatalogDocument } from './document.ts';

type Reached = Omit<ImportState, 'started_at'>;

/** People in one write, and writes under way at once: what a load holds at a time. */
const batchSize = 1_000;
const mostUnderWay = 3;
/** Bytes of a batch that are kept in memory used again: of a thousand people several times the usual. */
const arenaSize = 3 * 1024 * 1024;
/** Between two notes of how far a load has come. */
const saveEveryMs = 500;

interface Batch {
  /** Of its people, who are not kept. */
  ids: ReadonlySet<string>;
  /** Where the load is when this batch and all before it are written. */
  reached: Reached;
  written: Promise<void>;
  /** Holds its people until they are written. */
  arena: Arena;
}

/**
 * Writes people in batches, several at a time, waiting when the catalog is slower than the reader. Of the same id the
 * last one given wins: within a batch it replaces, and two batches that share an id are never under way together. How far
 * everything is written is reported in the order of the input.
 */
export class Writer {
  readonly #catalog: Pick<Catalog, 'encode' | 'write'>;
  readonly #save: (reached: Reached) => Promise<void>;
  /** Not in use. */
  readonly #arenas: Arena[] = [];
  #arena = new Arena(arenaSize);
  #reached: Reached;
  #people = new Map<string, EncodedPerson>();
  #underWay: Batch[] = [];
  #savedAt = 0;

  constructor(catalog: Pick<Catalog, 'encode' | 'write'>, start: Reached, save: (reached: Reached) => Promise<void>) {
    this.#catalog = catalog;
    this.#save = save;
    this.#reached = start;
  }

  /** Takes what was read: a document, or a bad record when there is none. */
  async take({ line, end }: { line: number; end: number }, document: CatalogDocument | undefined): Promise<void> {
    const { loaded, bad } = this.#reached;
    this.#reached = {
      position: end,
      line: line + 1,
      loaded: loaded + (document ? 1 : 0),
      bad: bad + (document ? 0 : 1),
    };
    if (document) this.#keep(document);
    if (this.#people.size >= batchSize) await this.#send();
  }

  /** Writes the rest and answers how far that is. */
  async end(): Promise<Reached> {
    if (this.#people.size > 0) await this.#send();
    while (this.#underWay.length > 0) await this.#settleOldest();
    await this.#save(this.#reached);
    return this.#reached;
  }

  #keep(document: CatalogDocument): void {
    const { id } = document;
    this.#people.set(id, { id, bytes: this.#arena.keep(this.#catalog.encode(document)) });
  }

  async #send(): Promise<void> {
    const people = this.#people;
    this.#people = new Map();
    const ids = new Set(people.keys());
    while (this.#underWay.length >= mostUnderWay || this.#underWay.some((batch) => !batch.ids.isDisjointFrom(ids)))
      await this.#settleOldest();
    const written = this.#catalog.write([...people.values()]);
    // Awaited in order below; a failure that comes early must not count as unhandled until then.
    written.catch(() => undefined);
    this.#underWay.push({ ids, reached: this.#reached, written, arena: this.#arena });
    this.#arena = this.#arenas.pop() ?? new Arena(arenaSize);
  }

  async #settleOldest(): Promise<void> {
    const [oldest] = this.#underWay;
    await oldest!.written;
    this.#underWay.shift();
    oldest!.arena.clear();
    this.#arenas.push(oldest!.arena);
    if (performance.now() - this.#savedAt < saveEveryMs) return;
    this.#savedAt = performance.now();
    await this.#save(oldest!.reached);
  }
}
