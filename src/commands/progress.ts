/** Displays the progress of a long task: on a terminal a bar that is redrawn, elsewhere a line every five seconds. */
export interface Progress {
  /**
   * Updates the display. Does nothing if the last update was only a moment ago.
   * @param done the part of `total` that is done, in the same unit
   * @param text shown beside the bar
   * @param items the number of items done, to show items per second
   * @param total overrides the total given to `progressOn`
   */
  show(done: number, text: string, items: number, total?: number): void;
  /**
   * Writes a line that stays, above the bar. Resolves when the stream has taken it, so that unread output does not fill
   * the memory.
   * @throws the error of the stream, except if its reader has closed it
   */
  line(text: string): Promise<void>;
  /** Removes the bar. */
  end(): void;
}

/** The shortest time between two updates of the bar (ms). */
const onTerminalMs = 100;
/** The shortest time between two progress lines if the stream is no terminal (ms). */
const elsewhereMs = 5_000;
/** The width of the bar (characters). */
const width = 24;

/**
 * Creates a progress display on a stream.
 * @param total the final value of `done`, if it is known from the start
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

/** Draws the bar. */
function drawn(share: number): string {
  const full = Math.round(Math.min(share, 1) * width);
  return `[${'='.repeat(full)}${' '.repeat(width - full)}] ${Math.floor(Math.min(share, 1) * 100)} %`;
}

/** Estimates the remaining time, as `m:ss left`. Returns an empty array if it is unknown. */
function remaining(done: number, total: number | undefined, seconds: number): string[] {
  if (!total || done <= 0) return [];
  const left = Math.round((seconds * Math.max(total - done, 0)) / done);
  return [`${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')} left`];
}
