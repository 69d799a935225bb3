import { DomainError } from '../errors.ts';

/** Converts an error to a message for the terminal. Only bugs of this program are shown with a stack trace. */
export function explain(error: unknown): string {
  const known = knownCause(error);
  if (known) return known;
  if (!(error instanceof Error)) return String(error);
  if (error instanceof DomainError && error.cause instanceof Error) return `${error.message} (${error.cause.message})`;
  return isOurs(error) ? error.message : `unexpected ${error.stack ?? error.message}`;
}

const isOurs = (error: Error): boolean =>
  !['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError'].includes(error.name);

function knownCause(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    const text = meaningOf(at);
    if (text) return text;
  }
  return undefined;
}

function meaningOf(error: NodeJS.ErrnoException): string | undefined {
  const code = error.code ?? '';
  if (error.syscall === 'listen') return listening[code]?.(error);
  // The server rejected a setting of the connection: the role sales_data_api, which migrations create, is missing.
  if (code === '22023' && error.message.includes('sales_data_api')) return notMigrated;
  // A PostgreSQL server without TLS declines it, and the driver then closes the connection.
  if (code === 'ECONNRESET' && error.message.includes('before secure TLS connection')) return withoutTls;
  const file = files[code];
  if (code === 'ENOENT' && error.syscall === 'mkdir') return `${error.path}: ${noFolder}`;
  return file && error.path ? `${error.path}: ${file}` : meanings[code];
}

const notMigrated = 'The database is not migrated yet. Run: sales-data-api migrate, or start with --migrate.';

const withoutTls =
  'The database has no TLS although `sslmode` asks for it. Turn on its TLS, or remove `sslmode` from DATABASE_URL.';

const listening: Record<string, (error: NodeJS.ErrnoException & { port?: number }) => string> = {
  EADDRINUSE: ({ port }) =>
    `Another program already listens on HOST and PORT or METRICS_PORT (port ${port}). Stop it, or set another port.`,
  EACCES: ({ port }) => `This user may not listen on port ${port}. Set PORT and METRICS_PORT to 1024 or more.`,
  EADDRNOTAVAIL: () =>
    'HOST is not an address of this machine. Set HOST to 127.0.0.1, or to 0.0.0.0 for all addresses.',
  ENOTFOUND: () => 'The host name in HOST cannot be resolved. Set HOST to an address of this machine.',
};

const noFolder =
  'no folder can be created here. Choose another place (DATA_DIR is the folder of the embedded PostgreSQL).';

const files: Record<string, string> = {
  EACCES:
    'this user has no permission. Grant it, or choose another place (DATA_DIR is the folder of the embedded PostgreSQL).',
  EPERM:
    'this user has no permission. Grant it, or choose another place (DATA_DIR is the folder of the embedded PostgreSQL).',
  EROFS: 'the file system is read-only. Choose another place (DATA_DIR is the folder of the embedded PostgreSQL).',
  ENOSPC: 'the disk is full. Free some space.',
  EEXIST: 'this is not a folder. Choose another place (DATA_DIR is the folder of the embedded PostgreSQL).',
  ENOTDIR:
    'a part of this path is not a folder. Choose another place (DATA_DIR is the folder of the embedded PostgreSQL).',
};

const meanings: Record<string, string> = {
  ECONNREFUSED: 'The database cannot be reached: no server listens on the host and port in DATABASE_URL.',
  ENOTFOUND: 'The database cannot be reached: the host name in DATABASE_URL cannot be resolved.',
  CONNECT_TIMEOUT:
    'The database cannot be reached: the host in DATABASE_URL does not answer, or has no TLS although `sslmode` asks for it.',
  EAI_AGAIN: 'The database cannot be reached: the name server does not answer for the host in DATABASE_URL.',
  ENOSPC: 'The disk is full. Free some space.',
  '53100': 'The disk of the database is full. Free some space.',
  '28P01': 'The database rejects the user in DATABASE_URL or its password.',
  '28000': 'The database rejects the user in DATABASE_URL.',
  '3D000': 'The database named in DATABASE_URL does not exist.',
  '42P01': notMigrated,
  '42703': 'The database has the schema of another version. Run: sales-data-api migrate',
  '42501':
    'The database user lacks rights that the service needs. Run: sales-data-api migrate, as the owner of the database.',
};
