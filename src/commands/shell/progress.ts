/** A display of the progress of a long task: a progress bar on a terminal, otherwise a text line every five seconds. */
export interface Progress {
  /**
   * Updates the progress display. Does nothing if the last update was less than 100 ms ago (on a terminal) or 5 s ago
   * (otherwise).
   * @param done how much of `total` is done, in the same unit
   * @param text a text that is shown beside the bar
   * @param items the number of items done so far, from which the items per second are computed
   * @param total replaces the total that was given when the display was created
   */
  show(done: number, text: string, items: number, total?: number): void;
  /**
   * Prints a line above the progress bar. The line stays on the terminal. The promise resolves when the stream is ready
   * for the next line (backpressure).
   * @throws the error of the stream, except if the reader has closed the stream
   */
  line(text: string): Promise<void>;
  /** Removes the progress bar from the terminal. */
  end(): void;
}

/** The shortest time between two updates of the progress bar on a terminal (ms). */
const onTerminalMs = 100;
/** The shortest time between two progress lines if the output is not a terminal (ms). */
const elsewhereMs = 5_000;
/** The width of the progress bar (characters). */
const width = 24;

/**
 * Creates a progress display for a long task. The display is written to the given stream.
 * @param total the final value of the progress, or undefined if it is unknown at the start
 */
export function progressOn(stream: NodeJS.WriteStream, total: number | undefined): Progress {
  const startedAt = performance.now();
  const isTerminal = stream.isTTY;
  let shownAt = startedAt;
  let bar = '';
  let fault: NodeJS.ErrnoException | undefined;
  const write = (text: string): Promise<void> | undefined => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const hasRoom = stream.write(text, (error) => {
      fault ??= error ?? undefined;
      resolve();
    });
    return hasRoom ? undefined : promise;
  };
  const clear = (): void => void (bar !== '' && stream.write(`\r${' '.repeat(bar.length)}\r`));
  return {
    show(done, text, items, outOf = total) {
      const now = performance.now();
      if (now - shownAt < (isTerminal ? onTerminalMs : elsewhereMs)) return;
      shownAt = now;
      const seconds = (now - startedAt) / 1_000;
      const facts = [text, `${Math.round(items / seconds)}/s`, ...remaining(done, outOf, seconds)].join(', ');
      if (!isTerminal) {
        stream.write(`${facts}\n`);
        return;
      }
      clear();
      bar = (outOf ? `${drawn(done / outOf)} ${facts}` : facts).slice(0, (stream.columns || 80) - 1);
      stream.write(bar);
    },
    async line(text) {
      if (fault?.code === 'EPIPE') return;
      if (fault) throw fault;
      clear();
      await write(`${text}\n`);
      if (bar !== '') stream.write(bar);
    },
    end: () => {
      clear();
      bar = '';
    },
  };
}

/**
 * Returns the progress bar as text, with its percentage.
 * @param share how much is done, from 0 to 1
 */
function drawn(share: number): string {
  const full = Math.round(Math.min(share, 1) * width);
  return `[${'='.repeat(full)}${' '.repeat(width - full)}] ${Math.floor(Math.min(share, 1) * 100)} %`;
}

/**
 * Returns the estimated remaining time as an array with one text such as `1:30 left`. The array is empty if the time
 * cannot be estimated yet.
 * @param seconds the time since the start
 */
function remaining(done: number, total: number | undefined, seconds: number): string[] {
  if (!total || done <= 0) return [];
  const left = Math.round((seconds * Math.max(total - done, 0)) / done);
  return [`${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')} left`];
}
