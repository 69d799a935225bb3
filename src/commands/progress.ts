export interface Progress {
  /**
   * Shows how far the work is: at most every 100 ms on a terminal, every 5 s elsewhere.
   * @param done finished part of `total`, in the same unit
   * @param text shown beside the bar
   * @param items number of finished items, for the rate per second
   * @param total replaces the total given at creation
   */
  show(done: number, text: string, items: number, total?: number): void;
  /**
   * Prints a permanent line above the bar. Resolves when the stream is ready for the next line.
   * @throws the error of the stream, except if the reader has closed it
   */
  line(text: string): Promise<void>;
  end(): void;
}

const onTerminalMs = 100;
const elsewhereMs = 5_000;
const width = 24;

function progressOn(total: number | undefined): Progress {
  const stream = process.stderr;
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

/** Runs `work` with a progress bar on stderr, and removes the bar afterwards. */
export async function withProgress<T>(total: number | undefined, work: (progress: Progress) => Promise<T>): Promise<T> {
  const progress = progressOn(total);
  try {
    return await work(progress);
  } finally {
    progress.end();
  }
}

function drawn(share: number): string {
  const full = Math.round(Math.min(share, 1) * width);
  return `[${'='.repeat(full)}${' '.repeat(width - full)}] ${Math.floor(Math.min(share, 1) * 100)} %`;
}

/**
 * Returns a text such as `1:30 left`, or nothing if the time cannot be estimated.
 * @param seconds since the start
 */
function remaining(done: number, total: number | undefined, seconds: number): string[] {
  if (!total || done <= 0) return [];
  const left = Math.round((seconds * Math.max(total - done, 0)) / done);
  return [`${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')} left`];
}
