import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { inject } from 'vitest';

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
  const logins = inject('postgres');
  const template = content === 'migrated' ? logins.template : 'template0';
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await asSuperuser((sql) => sql`create database ${sql(name)} template ${sql(template)} owner sales_owner`);
  return {
    url: logins.service + name,
    ownerUrl: logins.owner + name,
    superuserUrl: logins.superuser + name,
    drop: () => asSuperuser(async (sql) => void (await sql`drop database if exists ${sql(name)} with (force)`)),
  };
}

/** Runs a function as the server's superuser, in the maintenance database. */
export async function asSuperuser<T>(work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(`${inject('postgres').superuser}postgres`, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}
