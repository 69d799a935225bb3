import { writeSync } from 'node:fs';

/** Maximum total size of the log lines that wait in memory to be written (bytes). */
export const maxWaitingBytes = 1024 * 1024;
/** Delay before the next attempt to write the waiting log lines (ms). */
const retryMs = 100;

/**
 * Writes log lines to stderr without ever blocking, even if the log's reader has stopped or the disk is full. Lines
 * that cannot be written wait in memory, up to `maxWaitingBytes`. Further lines are lost, and so are lines that still
 * wait at exit. The number of lost lines is logged as soon as stderr accepts data again.
 */
export class LogOutput {
  /**
   * The file descriptor of stderr. Reading `process.stderr` makes a pipe or a socket non-blocking: a write that would
   * block fails instead.
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

  /** Writes as many waiting bytes as stderr accepts. Returns false if it accepts none. */
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

/**
 * Writes bytes to a file descriptor without waiting. Returns the number of written bytes: 0 if the pipe or the disk is
 * full, or if the reader has closed the pipe.
 */
function tryWrite(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes);
  } catch {
    return 0;
  }
}
