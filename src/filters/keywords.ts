import type { FuncKeywordDefinition, SchemaValidateFunction } from 'ajv';
import type { Fault } from '../errors.ts';
import { companyFilterFields, contactFilterFields, type FilterFields } from '../schemas/filters.ts';
import { prospectOrderFields } from '../schemas/prospects.ts';
import { readIndexedOrder } from './indexed-order.ts';
import { readOrder } from './order.ts';
import { readFilters } from './parse.ts';
import { readRules } from './rules.ts';

/**
 * Validate `filters`, `order_by` and `rules` with the rest of the body, so that one response lists all faults. Example
 * in a schema: `{"x-filters": "contacts"}`.
 */
export const filterKeywords: FuncKeywordDefinition[] = [
  keyword('x-filters', (fields, input, pointer) => readFilters(fields, input, pointer).faults),
  keyword('x-order-by', (fields, input, pointer) => readOrder(fields, input, pointer).faults),
  keyword('x-order-by-index', (fields, input, pointer) => readIndexedOrder(fields, input, pointer).faults),
  keyword('x-rules', (fields, input, pointer) => readRules(fields, input, pointer).faults),
];

type Check = (fields: FilterFields, input: unknown, pointer: string) => Fault[];

const nouns = new Map<string, FilterFields>(
  [contactFilterFields, companyFilterFields, prospectOrderFields].map((fields) => [fields.noun, fields]),
);

function keyword(name: string, check: Check): FuncKeywordDefinition {
  const validate: SchemaValidateFunction = (noun: string, input: unknown, _schema, context) => {
    const faults = check(nouns.get(noun)!, input, context?.instancePath ?? '');
    validate.errors = faults.map(({ path, message }) => ({ keyword: name, instancePath: path, message, params: {} }));
    return faults.length === 0;
  };
  return { keyword: name, schemaType: 'string', errors: 'full', validate };
}
