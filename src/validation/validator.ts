import { Ajv2020, type ErrorObject, type Options } from 'ajv/dist/2020.js';
import { maxFaults, validationFailed, type DomainError, type Fault } from '../errors.ts';
import { fileKeywords } from '../files/keywords.ts';
import { filterKeywords } from '../filters/keywords.ts';
import { faultKeywords } from '../schemas/base/fault-keywords.ts';
import { formats } from '../schemas/base/formats.ts';
import { keywords } from '../schemas/base/keywords.ts';
import { escapePointer } from '../text/json-pointer.ts';

/**
 * Options of the JSON schema validator (Ajv). With these options, the validator does not convert or remove values, and
 * adds no defaults.
 */
const options: Options = {
  strict: true,
  allowUnionTypes: true,
  formats,
  keywords: [...filterKeywords, ...fileKeywords, ...keywords, 'x-batch-items'],
};

/**
 * The validator (Ajv) that decides whether a value is valid. It stops at the first error, so a huge invalid value costs
 * little.
 */
const checker = new Ajv2020(options);

/** The validator (Ajv) that finds all errors of an invalid value, up to about `maxFaults`. */
const finder = new Ajv2020({ ...options, allErrors: true, meta: false, validateSchema: false });
// Ajv itself stops at the first error or never, so our versions of its array and object keywords stop earlier. The
// option `verbose` is off: verbose errors contain the body, and Ajv keeps them in memory.
for (const keyword of faultKeywords(finder, maxFaults)) {
  finder.removeKeyword(keyword.keyword as string);
  finder.addKeyword(keyword);
}

/** Validates a value, such as the body of a request. Returns true or an error. */
export interface Validator {
  (value: unknown): true | { error: DomainError };
  /** Returns the faults (validation errors) of the value, at most `maxFaults` + 1. */
  faultsOf(value: unknown): Fault[];
  /** Returns whether the value has no faults. Costs less than `faultsOf`. */
  isValid(value: unknown): boolean;
}

/** Compiles a JSON schema to a function that validates values. */
export function compile(schema: object): Validator {
  const check = checker.compile(schema);
  const isValid = (value: unknown): boolean => {
    const valid = check(value);
    check.errors = null; // they can contain a property name as long as the body
    return valid;
  };
  const faultsOf = (value: unknown): Fault[] => {
    if (isValid(value)) return [];
    const find = finder.compile(schema); // cached by Ajv after the first call
    return find(value) ? [] : toFaults(find.errors!);
  };
  const validate = (value: unknown) => {
    const faults = faultsOf(value);
    return faults.length === 0 || { error: validationFailed(faults) };
  };
  return Object.assign(validate, { faultsOf, isValid });
}

/**
 * Converts Ajv's errors to faults (validation errors with messages for callers), one fault for each path. Returns at
 * most `maxFaults` + 1 faults.
 */
function toFaults(errors: ErrorObject[]): Fault[] {
  const faults = new Map<string, Fault>();
  for (const error of errors) {
    const path = pointerOf(error);
    if (!faults.has(path)) faults.set(path, { path, message: messageOf(error) });
    if (faults.size > maxFaults) break;
  }
  return [...faults.values()];
}

/**
 * Returns the JSON pointer of an Ajv error. If a property is missing, returns the pointer that the missing property
 * would have.
 */
function pointerOf({ instancePath, params }: ErrorObject): string {
  const property: string | undefined = params['missingProperty'];
  return property === undefined ? instancePath : `${instancePath}/${escapePointer(property)}`;
}

/** Returns the message that the caller sees for an Ajv error. */
function messageOf(error: ErrorObject): string {
  const { keyword, params, parentSchema } = error;
  switch (keyword) {
    case 'required':
    case 'dependentRequired':
      return 'is required';
    case 'additionalProperties':
      return `is not known here; allowed: ${Object.keys(parentSchema?.['properties'] ?? {}).join(', ') || 'nothing'}`;
    case 'enum':
      return `must be one of ${params['allowedValues'].join(', ')}`;
    case 'format':
      return `must be ${formatNames[params['format']] ?? params['format']}`;
    default:
      return error.message ?? 'is not valid';
  }
}

/** The name of each string format for error messages, as in "must be a UUID". */
const formatNames: Record<string, string> = {
  uuid: 'a UUID',
  email: 'an e-mail address',
  'date-time': 'an RFC 3339 date-time with an offset, of a real date in the years 0001 to 9999',
  name: '1 to 255 characters, not counting white space around them',
  'key-name': '1 to 120 characters, not counting white space around them',
  country: 'an ISO 3166-1 alpha-2 country code, or empty',
  currency: 'an ISO 4217 currency code',
};
