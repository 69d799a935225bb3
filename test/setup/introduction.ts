import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { activityFilterFields } from '../../src/schemas/activities.ts';
import { companyFilterFields } from '../../src/schemas/companies.ts';
import { contactFilterFields } from '../../src/schemas/contacts.ts';
import type { FieldType } from '../../src/schemas/wire.ts';
import { operatorsOf, type FilterFields } from '../../src/schemas/filters.ts';

/** Those of products and opportunities are told by `GET /fields`. */
const typeNames: Readonly<Record<Exclude<FieldType, 'number'>, string>> = {
  text: 'text',
  exact: 'text, compared exactly',
  domain: 'domain',
  integer: 'integer',
  instant: 'date-time',
  uuid: 'id',
  custom: 'string, number or boolean',
  boolean: 'boolean',
  search: 'words',
  of: 'id, or an array of ids',
};

const file = join(import.meta.dirname, '..', '..', 'docs', 'api.md');
const [open, close] = ['<!-- filters -->\n', '<!-- /filters -->'];

/** Returns the introduction to the API as it is, and with a newly generated table of filters. */
export async function readIntroduction(): Promise<{ is: string; shouldBe: string }> {
  const is = await readFile(file, 'utf8');
  const [before, rest] = is.split(open) as [string, string];
  return { is, shouldBe: `${before}${open}\n${filterTable()}\n\n${close}${rest.split(close)[1]}` };
}

function filterTable(): string {
  const types = Object.keys(typeNames) as (keyof typeof typeNames)[];
  const rows = types.map((type) => {
    const names = (fields: FilterFields): string =>
      Object.keys(fields.types)
        .filter((name) => fields.types[name] === type)
        .map((name) => `\`${name}\``)
        .join(', ');
    const custom = '`custom_fields.<key>`';
    const fields = [contactFilterFields, companyFilterFields, activityFilterFields].map((of) =>
      type === 'custom' && of.customFields ? custom : names(of) || '–',
    );
    const operators = operatorsOf[type].map((operator) => `\`${operator}\``).join(', ') || 'none';
    const first = types.find((one) => operatorsOf[one].join() === operatorsOf[type].join())!;
    const told = first === type || operators === 'none' ? operators : `as of ${typeNames[first]}`;
    return `| ${typeNames[type]} | ${fields.join(' | ')} | ${told} |`;
  });
  const head = '| type | fields of contacts | fields of companies | fields of activities | operators |';
  return [head, '|---|---|---|---|---|', ...rows].join('\n');
}

// `npm run contract` writes the table that the test compares with.
if (process.argv[1] === import.meta.filename) await writeFile(file, (await readIntroduction()).shouldBe);
