/** Error for a file that cannot be imported at all. The message is shown to the user and says why. */
export class FileRefused extends Error {
  readonly reason: string;
  readonly line: number | undefined;

  /**
   * Creates the error.
   * @param reason What is wrong with the file, such as `is not valid UTF-8`.
   * @param line Number of the line with the problem. The first line of the file is 1.
   */
  constructor(reason: string, line?: number) {
    super(line === undefined ? `the file ${reason}` : `the file ${reason} (line ${line})`);
    this.reason = reason;
    this.line = line;
  }
}
