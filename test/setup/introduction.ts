import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  companyFilterFields,
  contactFilterFields,
  operatorsOf,
  type FieldType,
  type FilterFields,
} from '../../src/schemas/filters.ts';

const typeNames: Readonly<Record<FieldType, string>> = {
  text: 'text',
  exact: 'text, compared exactly',
  integer: 'integer',
  instant: 'date-time',
  uuid: 'id',
  custom: 'string, number or boolean',
  search: 'words',
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
  const rows = (Object.keys(typeNames) as (keyof typeof typeNames)[]).map((type) => {
    const names = (fields: FilterFields): string =>
      Object.keys(fields.types)
        .filter((name) => fields.types[name] === type)
        .map((name) => `\`${name}\``)
        .join(', ');
    const custom = '`custom_fields.<key>`';
    const [contacts, companies] =
      type === 'custom' ? [custom, custom] : [names(contactFilterFields), names(companyFilterFields)];
    const operators = operatorsOf[type].map((operator) => `\`${operator}\``).join(', ');
    return `| ${typeNames[type]} | ${contacts} | ${companies || '–'} | ${operators || 'none: the value is a string'} |`;
  });
  return ['| type | fields of contacts | fields of companies | operators |', '|---|---|---|---|', ...rows].join('\n');
}

// `npm run contract` writes the table that the test compares with.
if (process.argv[1] === import.meta.filename) await writeFile(file, (await readIntroduction()).shouldBe);
