/** Shows how far a long work is: a bar that is drawn over on a terminal, now and then a line elsewhere. */
export interface Progress {
  /**
   * @param done of the total, in its unit
   * @param text what to say of it
   * @param items what the rate is of
   */
  show(done: number, text: string, items: number, total?: number): void;
  /**
   * Says something that stays. Resolves when the reader has caught up, so that what is not read yet stays little.
   * @throws what keeps it from being written, unless it is that nobody reads any more
   */
  line(text: string): Promise<void>;
  end(): void;
}

const onTerminalMs = 100;
const elsewhereMs = 5_000;
const width = 24;

/** @param total what `done` goes up to, where it is known from the start */
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

function drawn(share: number): string {
  const full = Math.round(Math.min(share, 1) * width);
  return `[${'='.repeat(full)}${' '.repeat(width - full)}] ${Math.floor(Math.min(share, 1) * 100)} %`;
}

function remaining(done: number, total: number | undefined, seconds: number): string[] {
  if (!total || done <= 0) return [];
  const left = Math.round((seconds * Math.max(total - done, 0)) / done);
  return [`${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')} left`];
}
