import type { ImportState } from '../../queries/catalog/catalog-imports.ts';
import type { Catalog, EncodedPerson } from '../catalog.ts';
import type { CatalogDocument } from '../document.ts';

/** A position in the input, with the numbers of records before it. */
type Reached = Omit<ImportState, 'started_at'>;

const batchSize = 1_000;
/** Batches written at the same time. Limits the memory of an import. */
const maxWritesInFlight = 6;
/** Minimum time between two saves of the progress (ms). */
const saveEveryMs = 500;

type LeftOut = 'bad' | 'suppressed';

interface RunningWrite {
  ids: ReadonlySet<string>;
  /** Resolves when the write has succeeded or failed. */
  ended: Promise<void>;
}

/**
 * Writes people in batches, several at the same time, and saves the progress. Batches with a common id are never
 * written at the same time, so the later person wins. A slow batch does not block others: Elasticsearch sometimes needs
 * seconds for one write.
 */
export class BatchWriter {
  readonly #catalog: Pick<Catalog, 'encode' | 'write'>;
  readonly #save: (reached: Reached) => Promise<void>;
  #reached: Reached;
  #people = new Map<string, EncodedPerson>();
  /**
   * Batches that are being written, and those whose write failed: the saved position never passes them. By their end.
   */
  readonly #inFlight = new Map<Reached, RunningWrite>();
  /** Ends of batches in the order of the input, from the first that is not written yet. Later ones may be written. */
  readonly #ahead: Reached[] = [];
  /** Rejects with the error of the first failed write. */
  #failed: Promise<void> | undefined;
  #savedAt = 0;

  constructor(catalog: Pick<Catalog, 'encode' | 'write'>, start: Reached, save: (reached: Reached) => Promise<void>) {
    this.#catalog = catalog;
    this.#save = save;
    this.#reached = start;
  }

  /**
   * Adds one record of the input. It is only counted if it is invalid or the person suppressed. Waits while too many
   * batches are being written.
   * @throws the error of an earlier failed write, at the latest when the batch is full
   */
  async take({ line, end }: { line: number; end: number }, given: CatalogDocument | LeftOut): Promise<void> {
    const { loaded, bad, suppressed } = this.#reached;
    this.#reached = {
      position: end,
      line: line + 1,
      loaded: loaded + (typeof given === 'string' ? 0 : 1),
      bad: bad + (given === 'bad' ? 1 : 0),
      suppressed: suppressed + (given === 'suppressed' ? 1 : 0),
    };
    if (typeof given !== 'string') this.#keep(given);
    if (this.#people.size >= batchSize) await this.#send();
  }

  /** Writes the rest, waits for all writes, then saves and returns the position at the end of the input. */
  async end(): Promise<Reached> {
    if (this.#people.size > 0) await this.#send();
    while (this.#inFlight.size > 0) await this.#waitForOne();
    await this.#save(this.#reached);
    return this.#reached;
  }

  #keep(document: CatalogDocument): void {
    const { id } = document;
    this.#people.set(id, { id, bytes: Buffer.from(this.#catalog.encode(document)) });
  }

  /** Starts to write the current batch. Waits first while too many are being written, or one with a common id. */
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
    const written = this.#write([...people.values()], reached);
    const ended = written.catch(() => void (this.#failed ??= written));
    this.#inFlight.set(reached, { ids, ended });
    this.#ahead.push(reached);
  }

  async #write(people: EncodedPerson[], reached: Reached): Promise<void> {
    await this.#catalog.write(people);
    this.#inFlight.delete(reached);
  }

  async #waitForOne(): Promise<void> {
    await Promise.race(this.#inFlight.values().map(({ ended }) => ended));
    await this.#saveProgress();
  }

  /**
   * Saves the position up to which all people are stored, at most every `saveEveryMs`. After a failed write, waits for
   * all running ones, saves, and throws its error.
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
