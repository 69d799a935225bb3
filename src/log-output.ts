import { writeSync } from 'node:fs';

/** Maximum total size of the log lines that wait in memory until stderr accepts them (bytes). */
export const maxWaitingBytes = 1024 * 1024;
/** Delay before the next attempt to write the waiting log lines (ms). */
const retryMs = 100;

/**
 * Writes log lines to stderr and never blocks, even if the log's reader has stopped or the disk is full. Lines that
 * stderr does not accept wait in memory, up to `maxWaitingBytes`; further lines are dropped, and later their number is
 * logged.
 */
export class LogOutput {
  /**
   * The file descriptor of stderr. Node makes a pipe or socket non-blocking when `process.stderr` is first read, so a
   * write that would block fails instead.
   */
  readonly #fd = process.stderr.fd;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;

  /** Writes a log line now, or later if stderr is blocked. The line must end with a line break. */
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
 * Writes bytes to a file descriptor without waiting. Returns the number of written bytes, 0 if the write fails (e.g.
 * because the pipe or the disk is full).
 */
function tryWrite(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes);
  } catch {
    return 0;
  }
}
