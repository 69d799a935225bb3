import type { ImportState } from '../../queries/catalog-imports.ts';
import type { Catalog, EncodedPerson } from '../catalog.ts';
import type { CatalogDocument } from '../document.ts';
import { Arena } from './arena.ts';

/**
 * The position in the input up to which all people are stored, and the numbers of lines imported and rejected so far.
 */
type Reached = Omit<ImportState, 'started_at'>;

/** The number of people in one write. */
const batchSize = 1_000;
/** The maximum number of writes at the same time. With `batchSize` it bounds the memory of an import. */
const maxWritesInFlight = 6;
/**
 * The size of the memory that holds one batch's people (bytes). It is several times what a thousand people usually
 * need, and it is reused for later batches.
 */
const arenaSize = 3 * 1024 * 1024;
/** The shortest time between two saves of an import's position (ms). */
const saveEveryMs = 500;

/** A batch that is being written. */
interface Batch {
  /** The ids of its people. */
  ids: ReadonlySet<string>;
  /** Resolves when the batch is written or has failed. */
  ended: Promise<void>;
}

/**
 * Writes people to the catalog in batches, several at the same time. If the catalog is slow, `take` waits.
 *
 * If an id occurs twice in the input, the later person wins. For this, two batches with a common id are never written
 * at the same time. A slow batch does not block others: Elasticsearch sometimes needs seconds for one write.
 *
 * The saved position is the one up to which all people of the input are stored.
 */
export class BatchWriter {
  readonly #catalog: Pick<Catalog, 'encode' | 'write'>;
  readonly #save: (reached: Reached) => Promise<void>;
  /** Free buffers, which the next batches can use. */
  readonly #arenas: Arena[] = [];
  #arena = new Arena(arenaSize);
  #reached: Reached;
  #people = new Map<string, EncodedPerson>();
  /** The batches that are being written, by the position at their end. */
  readonly #inFlight = new Map<Reached, Batch>();
  /** The end positions of the first unwritten batch and all batches after it, in the order of the input. */
  readonly #ahead: Reached[] = [];
  /** The promise of the first write that failed. It rejects with the error. */
  #failed: Promise<void> | undefined;
  #savedAt = 0;

  constructor(catalog: Pick<Catalog, 'encode' | 'write'>, start: Reached, save: (reached: Reached) => Promise<void>) {
    this.#catalog = catalog;
    this.#save = save;
    this.#reached = start;
  }

  /**
   * Adds a record: a person to write, or a bad record if `document` is undefined. Waits while too many writes are
   * running.
   * @throws the error of an earlier write that failed
   */
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

  /** Writes the remaining people, waits for all writes, and saves and returns the end position. */
  async end(): Promise<Reached> {
    if (this.#people.size > 0) await this.#send();
    while (this.#inFlight.size > 0) await this.#settle();
    await this.#save(this.#reached);
    return this.#reached;
  }

  /** Adds a person to the current batch. */
  #keep(document: CatalogDocument): void {
    const { id } = document;
    this.#people.set(id, { id, bytes: this.#arena.keep(this.#catalog.encode(document)) });
  }

  /**
   * Starts to write the current batch. First waits while too many writes are running, or while a running write contains
   * one of the same people.
   */
  async #send(): Promise<void> {
    const people = this.#people;
    this.#people = new Map();
    const ids = new Set(people.keys());
    while (
      this.#inFlight.size >= maxWritesInFlight ||
      this.#inFlight.values().some((batch) => !batch.ids.isDisjointFrom(ids))
    )
      await this.#settle();
    await this.#note();
    const reached = this.#reached;
    const written = this.#write([...people.values()], reached, this.#arena);
    const ended = written.catch(() => void (this.#failed ??= written));
    this.#inFlight.set(reached, { ids, ended });
    this.#ahead.push(reached);
    this.#arena = this.#arenas.pop() ?? new Arena(arenaSize);
  }

  async #write(people: EncodedPerson[], reached: Reached, arena: Arena): Promise<void> {
    await this.#catalog.write(people);
    this.#inFlight.delete(reached);
    arena.clear();
    this.#arenas.push(arena);
  }

  /** Waits until one of the running writes has ended. */
  async #settle(): Promise<void> {
    await Promise.race(this.#inFlight.values().map(({ ended }) => ended));
    await this.#note();
  }

  /**
   * Saves the position up to which all people of the input are stored, at most once every `saveEveryMs`. If a write has
   * failed, waits for the other writes, saves the position and throws the error.
   */
  async #note(): Promise<void> {
    if (this.#failed) await Promise.all(this.#inFlight.values().map(({ ended }) => ended));
    const gap = this.#ahead.findIndex((reached) => this.#inFlight.has(reached));
    const settled = this.#ahead.splice(0, gap < 0 ? this.#ahead.length : gap).at(-1);
    if (settled && (this.#failed || performance.now() - this.#savedAt >= saveEveryMs)) {
      this.#savedAt = performance.now();
      await this.#save(settled);
    }
    await this.#failed;
  }
}
