import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TProperties } from '@sinclair/typebox';
import { ConfigSchema } from '../../src/process/config.ts';

const file = join(import.meta.dirname, '..', '..', 'docs', 'configuration.md');
const [open, close] = ['<!-- configuration -->\n', '<!-- /configuration -->'];

/** Returns docs/configuration.md as it is, and with a newly generated configuration table. */
export async function readTable(): Promise<{ is: string; shouldBe: string }> {
  const is = await readFile(file, 'utf8');
  const [before, rest] = is.split(open) as [string, string];
  return { is, shouldBe: `${before}${open}${configurationTable()}${close}${rest.split(close)[1]}` };
}

function configurationTable(): string {
  const rows = Object.entries(ConfigSchema.properties as TProperties).map(([name, schema]) => {
    const value: unknown = schema['default'];
    const file = schema['secret'] === true ? `, \`${name}_FILE\`` : '';
    return `| \`${name}\`${file} | ${value === undefined ? '' : `\`${JSON.stringify(value).replaceAll('"', '')}\``} | ${schema['description']} |\n`;
  });
  return `| variable | default | meaning |\n|---|---|---|\n${rows.join('')}`;
}

// `npm run contract` writes the table that the test compares with.
if (process.argv[1] === import.meta.filename) await writeFile(file, (await readTable()).shouldBe);
