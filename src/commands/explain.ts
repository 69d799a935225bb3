import { DomainError } from '../errors.ts';

/**
 * What went wrong and what to do, for the person at the terminal, in one line. No SQL and no row values; a stack only for
 * a fault of the program itself.
 */
export function explain(error: unknown): string {
  const known = knownCause(error);
  if (known) return known;
  if (!(error instanceof Error)) return String(error);
  if (error instanceof DomainError && error.cause instanceof Error) return `${error.message} (${error.cause.message})`;
  return isOurs(error) ? error.message : `unexpected ${error.stack ?? error.message}`;
}

/** Errors with a class of their own say what is wrong; the language's say that we are. */
const isOurs = (error: Error): boolean =>
  !['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError'].includes(error.name);

/** The first error in the chain of causes that means something to people. */
function knownCause(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    const text = meaningOf(at);
    if (text) return text;
  }
  return undefined;
}

function meaningOf(error: NodeJS.ErrnoException): string | undefined {
  const code = error.code ?? '';
  if (error.syscall === 'listen') return listening[code];
  // A setting of the connection was refused: the role that migrations make.
  if (code === '22023' && error.message.includes('sales_data_api')) return notMigrated;
  const file = files[code];
  return file && error.path ? `${error.path}: ${file}` : meanings[code];
}

const notMigrated = 'The database is not migrated yet. Run: sales-data-api migrate, or start with --migrate.';

/** Why the service cannot listen, by code of the operating system. */
const listening: Record<string, string> = {
  EADDRINUSE: 'Another program already listens on HOST and PORT. Stop it, or set another PORT.',
  EACCES: 'This user may not listen on PORT. Set a PORT of 1024 or more.',
  EADDRNOTAVAIL: 'HOST is no address of this machine. Set HOST to 127.0.0.1, or to 0.0.0.0 for all addresses.',
  ENOTFOUND: 'The name in HOST is not known. Set HOST to an address of this machine.',
};

/** Why a file cannot be used, by code of the operating system. */
const files: Record<string, string> = {
  EACCES:
    'this user has no permission. Give it, or choose another place (DATA_DIR is where the embedded PostgreSQL lives).',
  EPERM:
    'this user has no permission. Give it, or choose another place (DATA_DIR is where the embedded PostgreSQL lives).',
  EROFS: 'the file system is read-only. Choose another place (DATA_DIR is where the embedded PostgreSQL lives).',
  ENOSPC: 'the disk is full. Free some space.',
  ENOTDIR: 'a part of this path is no folder. Choose another place (DATA_DIR is where the embedded PostgreSQL lives).',
};

/** By code of the driver, of the operating system, or SQLSTATE. */
const meanings: Record<string, string> = {
  ECONNREFUSED: 'The database cannot be reached: nothing listens where DATABASE_URL points.',
  ENOTFOUND: 'The database cannot be reached: the host in DATABASE_URL is not known.',
  CONNECT_TIMEOUT:
    'The database cannot be reached: the host in DATABASE_URL does not answer, or has no TLS although `sslmode` asks for it.',
  EAI_AGAIN: 'The database cannot be reached: the name server does not answer for the host in DATABASE_URL.',
  ENOSPC: 'The disk is full. Free some space.',
  '53100': 'The disk of the database is full. Free some space.',
  '28P01': 'The database refuses the user or password in DATABASE_URL.',
  '28000': 'The database refuses the user in DATABASE_URL.',
  '3D000': 'The database that DATABASE_URL names does not exist.',
  '42P01': notMigrated,
  '42703': 'The database has tables of another version. Run: sales-data-api migrate',
  '42501': 'The database user lacks the rights of the service. Run: sales-data-api migrate, as the owner.',
};
