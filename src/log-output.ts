import { constants, openSync, writeSync } from 'node:fs';

/** Maximum total size of the log lines that wait in memory until stderr accepts them (bytes). */
export const maxWaitingBytes = 1024 * 1024;
/** Delay before the next attempt to write the waiting log lines (ms). */
const retryMs = 100;

/**
 * Writes log lines to stderr without blocking, even if nobody reads them or the disk is full. Lines that stderr does
 * not accept wait in memory, up to `maxWaitingBytes`. Further lines are dropped; later, the number of dropped lines is
 * logged.
 */
export class LogOutput {
  readonly #fd = nonBlockingStderr();
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #format: (line: string) => string;

  /**
   * Creates the output.
   * @param format converts each line to its final form
   */
  constructor(format: (line: string) => string) {
    this.#format = format;
  }

  /** Writes a line of JSON now, or later if stderr is blocked. The line must end with a line break. */
  write(line: string): void {
    const bytes = Buffer.from(this.#format(line));
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

let terminal: number | undefined;

/**
 * Returns a file descriptor of stderr that never blocks: a write that would block fails instead. For a pipe or a
 * socket, this is stderr itself. For a terminal, which blocks after Ctrl-S, this is a new file descriptor; only Linux
 * supports this.
 */
function nonBlockingStderr(): number {
  const { fd, isTTY } = process.stderr;
  if (!isTTY) return fd;
  try {
    return (terminal ??= openSync('/proc/self/fd/2', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY));
  } catch {
    return fd;
  }
}

/**
 * Writes bytes to a file descriptor without waiting. Returns the number of written bytes. This is 0 if the write fails,
 * for example because the pipe or the disk is full.
 */
function tryWrite(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes);
  } catch {
    return 0;
  }
}
