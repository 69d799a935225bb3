import { Ajv2020, type ErrorObject, type Options } from 'ajv/dist/2020.js';
import { maxFaults, validationFailed, type DomainError, type Fault } from '../errors.ts';
import { fileKeywords } from '../files/keywords.ts';
import { unsafeNumber } from '../filters/values.ts';
import { filterKeywords } from '../filters/keywords.ts';
import { faultKeywords, withParents } from '../schemas/base/fault-keywords.ts';
import { formats, type Format } from '../schemas/base/formats.ts';
import { keywords } from '../schemas/base/keywords.ts';
import { escapePointer } from '../text/json-pointer.ts';

/** The validator does not convert or remove values, and adds no defaults. */
const options: Options = {
  strict: true,
  allowUnionTypes: true,
  formats,
  keywords: [...filterKeywords, ...fileKeywords, ...keywords, 'x-batch-items'],
};

/** Decides whether a value is valid. Stops at the first error, so a huge invalid value costs little. */
const checker = new Ajv2020(options);

/** Finds all errors of an invalid value, up to about `maxFaults`. */
const finder = new Ajv2020({ ...options, allErrors: true, meta: false, validateSchema: false });
// Ajv itself stops at the first error or never, so our versions of its array and object keywords stop earlier. The
// option `verbose` is off: verbose errors contain the body, and Ajv keeps them in memory.
for (const keyword of faultKeywords(finder, maxFaults)) {
  finder.removeKeyword(keyword.keyword as string);
  finder.addKeyword(keyword);
}

/** What is wrong with a value: a keyword of the schema, and its value there. */
export type MessageFor = (error: Pick<ErrorObject, 'keyword' | 'params' | 'message' | 'parentSchema'>) => string;

export interface Validator {
  (value: unknown): true | { error: DomainError };
  /** @param messageFor returns the message of an error; by default the one for programmers */
  faultsOf(value: unknown, messageFor?: MessageFor): Fault[];
  /** Costs less than `faultsOf`. */
  isValid(value: unknown): boolean;
}

/** Compiles the schema at the first use: most processes use few of all schemas, and compiling all takes half a second. */
export function compile(schema: object): Validator {
  const isValid = (value: unknown): boolean => {
    const check = checker.compile(schema); // cached by Ajv after the first call
    const valid = check(value);
    check.errors = null; // they can contain a property name as long as the body
    return valid;
  };
  const faultsOf = (value: unknown, messageFor: MessageFor = messageOf): Fault[] => {
    if (isValid(value)) return [];
    const find = finder.compile(schema); // cached by Ajv after the first call
    return find(value) ? [] : toFaults(withParents(schema, find.errors!) as ErrorObject[], messageFor);
  };
  const validate = (value: unknown) => {
    const faults = faultsOf(value);
    return faults.length === 0 || { error: validationFailed(faults) };
  };
  return Object.assign(validate, { faultsOf, isValid });
}

function toFaults(errors: ErrorObject[], messageFor: MessageFor): Fault[] {
  const faults = new Map<string, Fault>();
  for (const error of errors) {
    const path = pointerOf(error);
    if (!faults.has(path)) faults.set(path, { path, message: messageFor(error) });
    if (faults.size > maxFaults) break;
  }
  return [...faults.values()];
}

/** For a missing property, the pointer that it would have. */
function pointerOf({ instancePath, params }: ErrorObject): string {
  const property: string | undefined = params['missingProperty'];
  return property === undefined ? instancePath : `${instancePath}/${escapePointer(property)}`;
}

function messageOf(error: Parameters<MessageFor>[0]): string {
  const { keyword, params, parentSchema } = error;
  switch (keyword) {
    case 'required':
    case 'dependentRequired':
      return 'is required';
    case 'additionalProperties':
      return `is not known here; allowed: ${Object.keys(parentSchema?.['properties'] ?? {}).join(', ') || 'nothing'}`;
    case 'type':
      return typeMessage(params['type'], parentSchema ?? {});
    case 'enum':
      return `must be one of ${params['allowedValues'].join(', ')}`;
    case 'maxLength':
      return parentSchema?.['format'] in formatNames
        ? `must be ${formatNames[parentSchema!['format'] as Format]}`
        : `must have at most ${params['limit']} characters`;
    case 'minLength':
      return params['limit'] === 1 ? 'must not be empty' : `must have at least ${params['limit']} characters`;
    case 'minimum':
    case 'maximum':
      return Math.abs(params['limit']) === Number.MAX_SAFE_INTEGER ? unsafeNumber : error.message!;
    case 'format':
      return `must be ${formatNames[params['format'] as Format]}`;
    default:
      return error.message ?? 'is not valid';
  }
}

const typeNames: Record<string, string> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  null: 'null',
};

/** Names the types that a value may have, and shows the form of such a value. */
function typeMessage(types: string | string[], schema: Record<string, unknown>): string {
  const {
    enum: values,
    examples: [example] = [],
    properties,
  } = schema as {
    enum?: unknown[];
    examples?: unknown[];
    properties?: object;
  };
  if (values) return `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}`;
  const names = [types].flat().map((type) => typeNames[type] ?? type);
  const form = example === undefined ? undefined : JSON.stringify(example);
  const shown = form && form.length <= 200 ? `, such as ${form}` : '';
  const members = shown === '' && properties ? ` with ${Object.keys(properties).join(', ')}` : '';
  return `must be ${names.join(' or ')}${members}${shown}`;
}

const formatNames: Record<Format, string> = {
  uuid: 'a UUID',
  email: 'an e-mail address',
  'date-time': 'an RFC 3339 date-time with an offset, of a real date in the years 0001 to 9999',
  'feed-start': 'start, now, or an RFC 3339 date-time with an offset, of a real date in the years 0001 to 9999',
  name: '1 to 255 characters, not counting white space around them',
  'key-name': '1 to 120 characters, not counting white space around them',
  country: 'an ISO 3166-1 alpha-2 country code, or empty',
  currency: 'an ISO 4217 currency code',
};
