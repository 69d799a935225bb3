import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { filterTable } from '../../src/schemas/filters.ts';

const file = join(import.meta.dirname, '..', '..', 'docs', 'api.md');
const [open, close] = ['<!-- filters -->\n', '<!-- /filters -->'];

/** Returns the introduction to the API as it is, and with a newly generated table of filters. */
export async function readIntroduction(): Promise<{ is: string; shouldBe: string }> {
  const is = await readFile(file, 'utf8');
  const [before, rest] = is.split(open) as [string, string];
  return { is, shouldBe: `${before}${open}\n${filterTable()}\n\n${close}${rest.split(close)[1]}` };
}

// `npm run contract` writes the table that the test compares with.
if (process.argv[1] === import.meta.filename) await writeFile(file, (await readIntroduction()).shouldBe);
