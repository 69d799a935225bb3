import { constants, openSync, writeSync } from 'node:fs';

/** Maximum total size of the log lines that are buffered in memory while stderr is blocked (bytes). */
export const maxWaitingBytes = 1024 * 1024;
/** Delay before writing to stderr is retried (ms). */
const retryMs = 100;

/**
 * Writes log lines to stderr without ever blocking the process. Lines that stderr does not accept are buffered in
 * memory. If the buffer is full, further lines are dropped, and the number of dropped lines is logged later.
 */
export class LogOutput {
  readonly #fd = nonBlockingStderr();
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #format: (line: string) => string;

  /**
   * Creates the log output.
   * @param format Converts a log line from JSON to the configured log format.
   */
  constructor(format: (line: string) => string) {
    this.#format = format;
  }

  /**
   * Writes a log line in JSON. If stderr is blocked, the line is written later. The line must end with a line break.
   */
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

  /** Writes as much of the buffered log lines as stderr accepts. Returns false if stderr accepts nothing. */
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
 * Returns a file descriptor for stderr on which a write fails instead of blocking. If stderr is a terminal, opens the
 * terminal again in non-blocking mode. Only Linux supports this; on other systems, writing to a terminal can block. If
 * stderr is a pipe or a file, returns its own file descriptor, which does not block.
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
 * Writes bytes to a non-blocking file descriptor. Returns the number of written bytes, or 0 if the write fails, for
 * example because a pipe or the disk is full.
 */
function tryWrite(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes);
  } catch {
    return 0;
  }
}
