/** Error for a file that cannot be imported at all. The message says why, for the user who sent the file. */
export class FileRefused extends Error {
  readonly reason: string;
  readonly line: number | undefined;

  /**
   * Creates the error.
   * @param reason what is wrong with the file, such as `is not valid UTF-8`
   * @param line the line where it was found; the first line of the file is 1
   */
  constructor(reason: string, line?: number) {
    super(line === undefined ? `the file ${reason}` : `the file ${reason} (line ${line})`);
    this.reason = reason;
    this.line = line;
  }
}
