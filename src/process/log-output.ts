import { pino } from 'pino';

const stderr = pino.destination({ fd: 2, sync: true });

/** Writes log lines to stderr. */
export class LogOutput {
  readonly #format: (line: string) => string;

  constructor(format: (line: string) => string) {
    this.#format = format;
  }

  /** @param line JSON that ends with a line break */
  write(line: string): void {
    stderr.write(this.#format(line));
  }
}
