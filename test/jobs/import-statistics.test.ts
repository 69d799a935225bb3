import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { isOnCitus } from '../setup/database.ts';
import { importFile, newContacts } from './importing.ts';

const app = await startApp();

const header = 'first_name,last_name,work_email,phone_numbers,company.name\n';
const fileOf = (from: number, to: number): string =>
  header +
  Array.from({ length: to - from }, (_, i) => `Ada,King,a${from + i}@example.com,,Company ${from + i}`).join('\n');

/** Returns the number of rows of each table as the planner knows it: -1 before the first `analyze`. */
async function known(): Promise<Record<string, number>> {
  const rows = await app.owner<{ relname: string; reltuples: number }[]>`
    select relname, reltuples from pg_class where oid in ('contacts'::regclass, 'companies'::regclass)`;
  return Object.fromEntries(rows.map(({ relname, reltuples }) => [relname, reltuples]));
}

/** Returns how often each table was vacuumed. */
async function vacuums(): Promise<Record<string, number>> {
  const rows = await app.owner<{ relname: string; times: number }[]>`
    select relname, vacuum_count::int as times from pg_stat_user_tables where relname in ('contacts', 'companies')`;
  return Object.fromEntries(rows.map(({ relname, times }) => [relname, times]));
}

test.skipIf(isOnCitus())(
  'the worker analyses and vacuums the tables of which an import changed more than a tenth (needs one server)',
  async () => {
    for (const table of ['contacts', 'companies'])
      await app.owner`alter table ${app.owner(table)} set (autovacuum_enabled = off)`;
    const customer = await app.customer();
    await importFile(app, customer, { ...newContacts, dry_run: true }, fileOf(0, 100));
    expect(await known()).toEqual({ contacts: -1, companies: -1 });
    await importFile(app, customer, newContacts, `${header}Ada,King,ada@example.com,,`);
    expect(await known()).toEqual({ contacts: 1, companies: -1 });
    await importFile(app, customer, newContacts, fileOf(0, 100));
    expect(await known()).toEqual({ contacts: 101, companies: 100 });
    expect(await vacuums()).toEqual({ contacts: 2, companies: 1 });
    await importFile(app, customer, newContacts, fileOf(100, 105));
    expect(await known()).toEqual({ contacts: 101, companies: 100 });
    expect(await vacuums()).toEqual({ contacts: 2, companies: 1 });
    await importFile(app, customer, newContacts, fileOf(105, 120));
    expect(await known()).toEqual({ contacts: 121, companies: 120 });
  },
);
