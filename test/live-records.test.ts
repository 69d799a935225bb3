import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

// A statement that reads companies or lists takes them from filters/sql.ts. So none can forget that the rows of deleted
// ones stay for a while.

const root = join(import.meta.dirname, '..', 'src');

/** Modules that name one of the tables themselves, and why. */
const exceptions: Record<string, string> = {
  'queries/crm/contacts.ts': 'which company of a contact is deleted',
  'queries/crm/companies.ts': 'adds `isLive` by hand; also locks a company that was deleted meanwhile, to tell that',
  'queries/crm/lists.ts': 'finds customers with lists to count; adds the condition itself',
};

const withoutComments = (text: string): string => text.replaceAll(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '');

/** Returns the places of a module that read from the tables without `filters/sql.ts`. */
const readsOf = (text: string): string[] =>
  withoutComments(text).match(/(?<!delete )\b(?:from|join|using) (?:companies|lists)\b.*/g) ?? [];

test('reads of companies and lists leave out deleted ones', () => {
  const modules = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
  const reading = modules.filter((path) => readsOf(readFileSync(join(root, path), 'utf8')).length > 0);
  expect(reading.toSorted()).toEqual(Object.keys(exceptions).toSorted());
});
