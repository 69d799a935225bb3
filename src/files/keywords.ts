import type { FuncKeywordDefinition, SchemaValidateFunction } from 'ajv';
import { companyFileFields, contactFileFields, type FileFields } from '../schemas/files.ts';
import { readFields } from './columns.ts';

const nouns = new Map<string, FileFields>(
  [contactFileFields, companyFileFields].map((fields) => [fields.noun, fields]),
);

const validate: SchemaValidateFunction = (noun: string, selected: unknown, _schema, context) => {
  const { faults } = readFields(nouns.get(noun)!, selected, context?.instancePath ?? '');
  validate.errors = faults.map(({ path, message }) => ({
    keyword: 'x-file-fields',
    instancePath: path,
    message,
    params: {},
  }));
  return faults.length === 0;
};

/** Validates the request field `fields` of exports. Example: `{"x-file-fields": "contacts"}`. */
export const fileKeywords: FuncKeywordDefinition[] = [
  { keyword: 'x-file-fields', schemaType: 'string', errors: 'full', validate },
];
