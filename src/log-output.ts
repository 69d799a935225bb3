import { writeSync } from 'node:fs';

/** Maximum size of the log lines that wait in memory (bytes). */
export const maxWaitingBytes = 1024 * 1024;
/** Delay before the next attempt to write waiting lines (ms). */
const retryMs = 100;

/**
 * Writes log lines to stderr without ever blocking: the service keeps answering when the reader of its log has stopped
 * or the disk is full. Lines that cannot be written wait in memory, up to `maxWaitingBytes`. Further lines are lost,
 * and their number is logged as soon as there is space again. Lines that still wait at exit are lost too.
 */
export class LogOutput {
  /**
   * The file descriptor of stderr. Opening `process.stderr` makes a pipe or a socket non-blocking: a write that would
   * block fails.
   */
  readonly #fd = process.stderr.fd;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;

  /** Writes a line now, or later if stderr is blocked. The line must end with a line break. */
  write(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#waitingBytes + bytes.length > maxWaitingBytes) this.#lost += 1;
    else this.#add(bytes);
    if (!this.#timer) this.#flush();
  }

  #add(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
  }

  #flush(): void {
    this.#timer = undefined;
    while (this.#waiting.length > 0) if (!this.#writeSome()) return this.#retryLater();
    if (this.#lost === 0) return;
    const [count, time] = [this.#lost, Date.now()];
    this.#lost = 0;
    this.write(`${JSON.stringify({ level: 40, time, pid: process.pid, count, msg: 'log lines were lost' })}\n`);
  }

  /** Writes as much of the waiting lines as stderr takes; returns false when it takes nothing. */
  #writeSome(): boolean {
    const bytes = this.#waiting.length === 1 ? this.#waiting[0]! : Buffer.concat(this.#waiting);
    const written = tryWrite(this.#fd, bytes);
    this.#waitingBytes = bytes.length - written;
    this.#waiting = this.#waitingBytes > 0 ? [bytes.subarray(written)] : [];
    return written > 0;
  }

  #retryLater(): void {
    this.#timer = setTimeout(() => this.#flush(), retryMs).unref();
  }
}

/** Returns how many bytes were written: 0 when the pipe is full, the disk is full, or nobody reads any more. */
function tryWrite(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes);
  } catch {
    return 0;
  }
}
