/** The file cannot be imported at all. The message says why to the user. */
export class FileRefused extends Error {
  readonly reason: string;
  readonly line: number | undefined;

  /**
   * @param reason such as `is not valid UTF-8`
   * @param line where the problem is, from 1
   */
  constructor(reason: string, line?: number) {
    super(line === undefined ? `the file ${reason}` : `the file ${reason} (line ${line})`);
    this.reason = reason;
    this.line = line;
  }
}
