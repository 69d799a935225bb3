import type { FuncKeywordDefinition, SchemaValidateFunction } from 'ajv';
import { contactFilterFields } from '../schemas/contacts.ts';
import { readRules } from './rules.ts';

const validate: SchemaValidateFunction = (_: true, rules: unknown, _schema, context) => {
  const { faults } = readRules(contactFilterFields, rules, context?.instancePath);
  validate.errors = faults.map(({ path, message }) => ({
    keyword: 'x-rules',
    instancePath: path,
    message,
    params: {},
  }));
  return faults.length === 0;
};

/** Checks whether the operator and the value of each rule of a list fit its field. */
export const ruleKeyword: FuncKeywordDefinition = {
  keyword: 'x-rules',
  schemaType: 'boolean',
  errors: 'full',
  validate,
};
