import { constants, openSync, writeSync } from 'node:fs';

/** Maximum size of the lines that are buffered while stderr is blocked (bytes). */
const maxWaitingBytes = 1024 * 1024;
/** Pause between two attempts to write (ms). */
const retryMs = 100;

/**
 * Writes lines to stderr without ever blocking the process. Lines that stderr does not accept are buffered. While the
 * buffer is full, lines are dropped, and their number is logged later.
 */
export class LogOutput {
  readonly #fd = nonBlockingStderr();
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #format: (line: string) => string;

  constructor(format: (line: string) => string) {
    this.#format = format;
  }

  /** Writes a line of JSON that ends with a line break, later if stderr is blocked. */
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
 * Returns a descriptor of stderr on which a write fails instead of blocking. A terminal is opened again in non-blocking
 * mode, which only Linux supports; elsewhere, writing to a terminal can block. Pipes and files do not block.
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

/** Returns the number of written bytes: 0 if the write fails, e.g. because a pipe or the disk is full. */
function tryWrite(fd: number, bytes: Buffer): number {
  try {
    return writeSync(fd, bytes);
  } catch {
    return 0;
  }
}
