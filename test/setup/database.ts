import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { inject } from 'vitest';

/** A database of one's own, migrated and empty. */
export interface TestDatabase {
  /** As the service logs in. */
  url: string;
  /** As its owner, who may do anything in it. */
  ownerUrl: string;
  /** As the server's superuser, who may also end other people's connections. */
  superuserUrl: string;
  /** Removes it, whoever is still connected. */
  drop(): Promise<void>;
}

/** Clones the migrated template, or for the tests of migrations makes a database with nothing in it. */
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

/** Runs something as the server's superuser, in its maintenance database. */
export async function asSuperuser<T>(work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(`${inject('postgres').superuser}postgres`, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}
