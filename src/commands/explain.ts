/** What went wrong, for the person at the terminal: no stack unless it is a fault of the program, no SQL, no row values. */
export function explain(error: unknown): string {
  const known = knownCause(error);
  if (known) return known;
  if (!(error instanceof Error)) return String(error);
  return isOurs(error) ? error.message : `unexpected ${error.stack ?? error.message}`;
}

/** Errors with a class of their own say what is wrong; the language's say that we are. */
const isOurs = (error: Error): boolean =>
  !['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError'].includes(error.name);

/** The first error in the chain of causes that means something to people. */
function knownCause(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    const text = meanings[(at as Error & { code?: string }).code ?? ''];
    if (text) return text;
  }
  return undefined;
}

/** By code of the operating system, of the driver, or SQLSTATE. */
const meanings: Record<string, string> = {
  ECONNREFUSED: 'The database cannot be reached: nothing listens where DATABASE_URL points.',
  ENOTFOUND: 'The database cannot be reached: the host in DATABASE_URL is not known.',
  CONNECT_TIMEOUT: 'The database cannot be reached: the host in DATABASE_URL does not answer.',
  '28P01': 'The database refuses the user or password in DATABASE_URL.',
  '28000': 'The database refuses the user in DATABASE_URL.',
  '3D000': 'The database that DATABASE_URL names does not exist.',
  '42P01': 'The database has no tables yet, or old ones. Run: sales-data-api migrate',
  '42703': 'The database has tables of another version. Run: sales-data-api migrate',
  '42501': 'The database user lacks the rights of the service. Run: sales-data-api migrate, as the owner.',
};
