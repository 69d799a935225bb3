import { readFile } from 'node:fs/promises';
import postgres from 'postgres';
import { expect, test } from 'vitest';
import { createDatabase, isOnCitus } from '../setup/database.ts';
import { drawSchema, schemaFile } from '../setup/schema-picture.ts';

test.skipIf(isOnCitus())(
  'sql/schema.sql matches the database that the migrations create (else run `npm run schema`; needs one server)',
  async () => {
    const database = await createDatabase();
    const sql = postgres(database.ownerUrl, { max: 1, fetch_types: false });
    expect(await drawSchema(sql)).toBe(await readFile(schemaFile, 'utf8'));
    await sql.end();
    await database.drop();
  },
);
