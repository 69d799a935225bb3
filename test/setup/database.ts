import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { inject } from 'vitest';
import { cloneDatabase, dropDatabase } from './citus.ts';

/** A database for one test file, migrated and empty. */
export interface TestDatabase {
  /** URL with the service's login. */
  url: string;
  /** URL with the login of the owner, who may do anything in this database. */
  ownerUrl: string;
  /** URL with the login of the superuser, who may also terminate connections of others. */
  superuserUrl: string;
  /** Drops the database, even if there are connections to it. */
  drop(): Promise<void>;
}

/** Clones the migrated template, or creates an empty database for tests of migrations. */
export async function createDatabase(content: 'migrated' | 'nothing' = 'migrated'): Promise<TestDatabase> {
  const { urls, nodes, templates } = inject('postgres');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await cloneDatabase(nodes, templates[content], name);
  return {
    url: urls.service + name,
    ownerUrl: urls.owner + name,
    superuserUrl: urls.superuser + name,
    drop: () => dropDatabase(nodes, name),
  };
}

/** Whether the tests run on a Citus cluster, over which the database is distributed. */
export const isOnCitus = (): boolean => inject('postgres').isCitus;

/** Runs a function as the server's superuser, in the maintenance database. */
export async function asSuperuser<T>(work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(`${inject('postgres').urls.superuser}postgres`, {
    max: 1,
    fetch_types: false,
    onnotice: () => {},
  });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}
