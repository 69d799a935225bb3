import type { ImportState } from '../queries/catalog-imports.ts';
import { Arena } from './arena.ts';
import type { Catalog, EncodedPerson } from './catalog.ts';
import type { CatalogDocument } from './document.ts';

type Reached = Omit<ImportState, 'started_at'>;

/** People in one write, and writes under way at once: what a load holds at a time. */
const batchSize = 1_000;
const mostUnderWay = 6;
/** Bytes of a batch that are kept in memory used again: of a thousand people several times the usual. */
const arenaSize = 3 * 1024 * 1024;
/** Between two notes of how far a load has come. */
const saveEveryMs = 500;

interface Batch {
  /** Of its people. */
  ids: ReadonlySet<string>;
  /** Written, or failed for good. */
  ended: Promise<void>;
}

/**
 * Writes people in batches, several at a time, waiting when the catalog is slower than the reader. Of the same id the
 * last one given wins: within a batch it replaces, and two batches that share an id are never under way together. A batch
 * that takes long holds up no other (a cluster has the thread of one write flush for all, for seconds); how far everything
 * is written is reported in the order of the input.
 */
export class Writer {
  readonly #catalog: Pick<Catalog, 'encode' | 'write'>;
  readonly #save: (reached: Reached) => Promise<void>;
  /** Not in use. */
  readonly #arenas: Arena[] = [];
  #arena = new Arena(arenaSize);
  #reached: Reached;
  #people = new Map<string, EncodedPerson>();
  /** By where the load is when a batch and all before it are written. */
  readonly #underWay = new Map<Reached, Batch>();
  /** Of all batches from the first that is under way, in the order of the input. */
  readonly #ahead: Reached[] = [];
  /** The first write that failed. */
  #failed: Promise<void> | undefined;
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
    while (this.#underWay.size > 0) await this.#settle();
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
    while (
      this.#underWay.size >= mostUnderWay ||
      this.#underWay.values().some((batch) => !batch.ids.isDisjointFrom(ids))
    )
      await this.#settle();
    await this.#note();
    const reached = this.#reached;
    const written = this.#write([...people.values()], reached, this.#arena);
    const ended = written.catch(() => void (this.#failed ??= written));
    this.#underWay.set(reached, { ids, ended });
    this.#ahead.push(reached);
    this.#arena = this.#arenas.pop() ?? new Arena(arenaSize);
  }

  async #write(people: EncodedPerson[], reached: Reached, arena: Arena): Promise<void> {
    await this.#catalog.write(people);
    this.#underWay.delete(reached);
    arena.clear();
    this.#arenas.push(arena);
  }

  /** Waits until any batch has ended. */
  async #settle(): Promise<void> {
    await Promise.race(this.#underWay.values().map(({ ended }) => ended));
    await this.#note();
  }

  /** Saves now and then how far all are written without a gap. When a write has failed the others are the last. */
  async #note(): Promise<void> {
    if (this.#failed) await Promise.all(this.#underWay.values().map(({ ended }) => ended));
    const gap = this.#ahead.findIndex((reached) => this.#underWay.has(reached));
    const settled = this.#ahead.splice(0, gap < 0 ? this.#ahead.length : gap).at(-1);
    if (settled && (this.#failed || performance.now() - this.#savedAt >= saveEveryMs)) {
      this.#savedAt = performance.now();
      await this.#save(settled);
    }
    await this.#failed;
  }
}
