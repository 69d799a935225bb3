import type { ImportState } from '../../queries/catalog/catalog-imports.ts';
import type { Catalog, EncodedPerson } from '../catalog.ts';
import type { CatalogDocument } from '../document.ts';
import { Arena } from './arena.ts';

/**
 * A position in the input of an import, with the numbers of records that were imported and rejected before it.
 */
type Reached = Omit<ImportState, 'started_at'>;

/** The number of people that are written to the catalog in one call. */
const batchSize = 1_000;
/** The maximum number of batches that are written at the same time. It limits the memory that an import needs. */
const maxWritesInFlight = 6;
/**
 * The size of the buffer for one batch of people (bytes): several times what 1,000 people usually need. Buffers are
 * reused for later batches.
 */
const arenaSize = 3 * 1024 * 1024;
/** The minimum time between two saves of an import's progress (ms). */
const saveEveryMs = 500;

/** A batch of people that is being written to the catalog. */
interface Batch {
  /** The ids of the people in the batch. */
  ids: ReadonlySet<string>;
  /** A promise that resolves when the write of the batch has succeeded or failed. */
  ended: Promise<void>;
}

// Two batches with a common id are never written at the same time, so that the later person wins. A slow batch does not
// block others: Elasticsearch sometimes needs seconds for one write.
/**
 * Writes the people of an import to the catalog in batches, several batches at the same time, and saves the progress.
 * If two people in the input have the same id, the later one replaces the earlier one.
 */
export class BatchWriter {
  readonly #catalog: Pick<Catalog, 'encode' | 'write'>;
  readonly #save: (reached: Reached) => Promise<void>;
  /** Buffers that no batch uses at the moment. Later batches use them again. */
  readonly #arenas: Arena[] = [];
  #arena = new Arena(arenaSize);
  #reached: Reached;
  #people = new Map<string, EncodedPerson>();
  /**
   * The batches that are being written, and those whose write failed: the saved position never passes them. The key is
   * the position in the input at the end of the batch.
   */
  readonly #inFlight = new Map<Reached, Batch>();
  /**
   * The end positions of batches, in the order of the input, from the first batch that is not written yet. Later
   * batches are included even if they are already written.
   */
  readonly #ahead: Reached[] = [];
  /**
   * The promise of the first failed write. Awaiting it throws the error of this write. Undefined if no write has
   * failed.
   */
  #failed: Promise<void> | undefined;
  #savedAt = 0;

  constructor(catalog: Pick<Catalog, 'encode' | 'write'>, start: Reached, save: (reached: Reached) => Promise<void>) {
    this.#catalog = catalog;
    this.#save = save;
    this.#reached = start;
  }

  /**
   * Adds one record of the input. With a `document`, the person is written to the catalog. Without a `document`, the
   * record is invalid and is only counted. Waits while too many batches are being written.
   * @throws the error of an earlier failed write, at the latest when the batch is full
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

  /**
   * Writes the remaining people and waits for all writes. Then saves and returns the position at the end of the input.
   */
  async end(): Promise<Reached> {
    if (this.#people.size > 0) await this.#send();
    while (this.#inFlight.size > 0) await this.#waitForOne();
    await this.#save(this.#reached);
    return this.#reached;
  }

  /** Adds a person to the current batch, whose write has not started yet. Replaces a person with the same id. */
  #keep(document: CatalogDocument): void {
    const { id } = document;
    this.#people.set(id, { id, bytes: this.#arena.keep(this.#catalog.encode(document)) });
  }

  /**
   * Starts to write the current batch. Waits first if the maximum number of batches is being written, or if one of
   * these batches has a person with the same id.
   */
  async #send(): Promise<void> {
    const people = this.#people;
    this.#people = new Map();
    const ids = new Set(people.keys());
    while (
      this.#inFlight.size >= maxWritesInFlight ||
      this.#inFlight.values().some((batch) => !batch.ids.isDisjointFrom(ids))
    )
      await this.#waitForOne();
    await this.#saveProgress();
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

  /** Waits until at least one of the running writes has ended. */
  async #waitForOne(): Promise<void> {
    await Promise.race(this.#inFlight.values().map(({ ended }) => ended));
    await this.#saveProgress();
  }

  /**
   * Saves the position up to which all people are stored, at most once every `saveEveryMs` milliseconds. After a failed
   * write, waits for all running writes, saves the position, and throws the error of the failed write.
   */
  async #saveProgress(): Promise<void> {
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
