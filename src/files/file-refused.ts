/** The file cannot be imported at all. The message says why to the user. */
export class FileRefused extends Error {
  readonly reason: string;
  readonly line: number | undefined;

  /**
   * @param reason such as `is not valid UTF-8`
   * @param line where the problem is, from 1
   * @param advice what the user can do
   */
  constructor(reason: string, line?: number, advice?: string) {
    const place = line === undefined ? '' : ` (line ${line})`;
    super(`the file ${reason}${place}${advice === undefined ? '' : `: ${advice}`}`);
    this.reason = reason;
    this.line = line;
  }
}

/** The file has not even a header line. */
export class NothingToRead extends FileRefused {
  constructor() {
    super('has no header line');
  }
}
