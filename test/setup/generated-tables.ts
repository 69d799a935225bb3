import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TProperties } from '@sinclair/typebox';
import { ConfigSchema } from '../../src/process/config.ts';
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

/** A table of the handbook that is generated: its file, the marks around it, and its text. */
interface Table {
  file: string;
  mark: string;
  text: () => string;
}

/** The table of filters in the introduction to the API, and that of the configuration. */
export const tables = {
  filters: { file: 'api.md', mark: 'filters', text: () => `\n${filterTable()}\n\n` },
  configuration: { file: 'configuration.md', mark: 'configuration', text: () => configurationTable() },
} satisfies Record<string, Table>;

const pathOf = ({ file }: Table): string => join(import.meta.dirname, '..', '..', 'docs', file);

/** Returns a page of the handbook as it is, and with its table newly generated. */
export async function readPage(table: Table): Promise<{ is: string; shouldBe: string }> {
  const is = await readFile(pathOf(table), 'utf8');
  const [open, close] = [`<!-- ${table.mark} -->\n`, `<!-- /${table.mark} -->`];
  const [before, rest] = is.split(open) as [string, string];
  return { is, shouldBe: `${before}${open}${table.text()}${close}${rest.split(close)[1]}` };
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

function configurationTable(): string {
  const rows = Object.entries(ConfigSchema.properties as TProperties).map(([name, schema]) => {
    const value: unknown = schema['default'];
    const file = schema['secret'] === true ? `, \`${name}_FILE\`` : '';
    return `| \`${name}\`${file} | ${value === undefined ? '' : `\`${JSON.stringify(value).replaceAll('"', '')}\``} | ${schema['description']} |\n`;
  });
  return `| variable | default | meaning |\n|---|---|---|\n${rows.join('')}`;
}

// `npm run contract` writes the tables that the tests compare with.
if (process.argv[1] === import.meta.filename)
  for (const table of Object.values(tables)) await writeFile(pathOf(table), (await readPage(table)).shouldBe);
