import type { KeywordDefinition, SchemaValidateFunction, FuncKeywordDefinition, ValidateFunction } from 'ajv';
import type { SchemaEnv } from 'ajv/dist/compile/index.js';
import { Ajv2020, type ErrorObject, type Options } from 'ajv/dist/2020.js';
import { domainOf } from '../text/domains.ts';
import { canonicalId } from '../text/ids.ts';
import { contactFilterFields } from '../schemas/contacts.ts';
import { readRules } from '../filters/rules.ts';
import { maxFaults, validationFailed, DomainError, type Fault } from '../errors.ts';
import { countryCode, formats, type Format } from '../schemas/formats.ts';
import { customPattern } from '../schemas/filters.ts';
import { escapePointer, tokensOf, findUnstorableText } from '../text/json.ts';
import { TimeSlice } from '../process/event-loop.ts';
import { choicePattern } from '../schemas/wire.ts';
import { batchItem, maxBatchFaults, type BatchKind, type BatchOperation, type MatchField } from '../schemas/batches.ts';

const rewriting = (keyword: string, canonical: (text: string) => string | undefined): KeywordDefinition => ({
  keyword,
  type: 'string',
  schemaType: 'boolean',
  modifying: true,
  errors: false,
  validate: ((_: true, text: string, _schema, context) => {
    // The search for all faults of an invalid body checks elements of arrays on their own, without their array.
    if (context?.parentData) context.parentData[context.parentDataProperty] = canonical(text) ?? text;
    return true;
  }) satisfies SchemaValidateFunction,
});

const keywords: KeywordDefinition[] = [
  {
    keyword: 'x-max-json-bytes',
    type: 'object',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must not be longer than ${String(schemaCode)} bytes of JSON` },
    validate: ((max: number, value: object, schema) =>
      Object.keys(value).length > (schema?.['maxProperties'] ?? Infinity) ||
      Buffer.byteLength(flatJson(value)) <= max) satisfies SchemaValidateFunction,
  },
  {
    // Counts those of alternatives, too.
    keyword: 'x-max-conditions',
    type: 'object',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must have at most ${String(schemaCode)} conditions` },
    validate: (max: number, filters: object) => countConditions(filters) <= max,
  },
  {
    // `multipleOf` cannot be used. It divides binary fractions, so 19.99 is not a multiple of 0.01.
    keyword: 'x-max-decimals',
    type: 'number',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => `must not have more than ${String(schemaCode)} decimals` },
    validate: (max: number, value: number) => Number(value.toFixed(max)) === value,
  },
  rewriting('x-canonical-id', canonicalId),
  rewriting('x-domain', domainOf),
  { ...reporting('x-distinct-ids', findRepeatedIds), type: ['array', 'object'] },
  reporting('x-rules', (rules, path) => readRules(contactFilterFields, rules, path).faults),
];

function countConditions(filters: unknown): number {
  if (!isObject(filters)) return 1;
  const counts = Object.entries(filters).map(([name, condition]) => {
    if (name === '_or' && Array.isArray(condition)) return condition.map(countConditions).reduce((a, b) => a + b, 0);
    return isObject(condition) ? Object.keys(condition).length : 1;
  });
  return counts.reduce((a, b) => a + b, 0);
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const flatJson = (value: object): string =>
  JSON.stringify(
    Object.fromEntries(Object.entries(value).map(([key, member]) => [key, typeof member === 'object' ? null : member])),
  );

type FindFaults = (value: unknown, path: string, schema: Schema) => Fault[];

/** Returns a keyword that rejects a value if `find` returns faults of it. */
function reporting(keyword: string, find: FindFaults): FuncKeywordDefinition {
  const validate: SchemaValidateFunction = (_: true, value: unknown, schema, context) => {
    const faults = find(value, context?.instancePath ?? '', schema ?? {});
    validate.errors = faults.map(({ path, message }) => ({ keyword, instancePath: path, message, params: {} }));
    return faults.length === 0;
  };
  return { keyword, schemaType: 'boolean', errors: 'full', validate };
}

/** Checks an array of ids or of objects with an id. For an object, checks all its arrays together. */
function findRepeatedIds(value: unknown, path: string, schema: Schema): Fault[] {
  const members = Object.entries((schema['properties'] ?? {}) as Record<string, ArraySchema>);
  const named = Array.isArray(value)
    ? idsIn(value, path, schema)
    : members.flatMap(([name, one]) => idsIn((value as Record<string, unknown>)[name], `${path}/${name}`, one));
  const seen = new Set<string>();
  const again = named.filter(({ id }) => seen.size === seen.add(id).size);
  return again.map((one) => ({ path: one.path, message: 'is named twice' }));
}

type ArraySchema = { maxItems?: number };

/**
 * Returns the ids of an array, in lower case, with their JSON pointers. Skips elements without an id. Returns nothing
 * for an array that is too long, because another check rejects it.
 */
function idsIn(array: unknown, path: string, { maxItems = Infinity }: ArraySchema): { id: string; path: string }[] {
  if (!Array.isArray(array) || array.length > maxItems) return [];
  return array.flatMap((element: unknown, index) => {
    const isId = typeof element === 'string';
    const id = isId ? element : (element as { id?: unknown } | null)?.id;
    return typeof id === 'string' ? [{ id: canonicalId(id) ?? id, path: `${path}/${index}${isId ? '' : '/id'}` }] : [];
  });
}

/** Options of Ajv. It does not convert or remove values, and adds no defaults. */
const options: Options = {
  strict: true,
  // The first request of a process waits until the filters are compiled: 0.1 s so, 0.2 s with code that is 1 µs faster.
  code: { optimize: false },
  inlineRefs: false,
  verbose: true, // errors name the schema that refuses
  allowUnionTypes: true,
  formats,
  keywords: [...keywords, 'x-batch-items'],
};

/** Ajv instance that stops at the first error, so a huge invalid value costs little. */
const checker = new Ajv2020(options);

const finder = new Ajv2020({ ...options, allErrors: true, meta: false, validateSchema: false });

/**
 * Maximum number of parts (such as array elements) of a value for which all errors are reported. For a larger value,
 * only the first error is.
 */
const maxParts = 33_000;

function isLarge(value: unknown): boolean {
  let parts = 0;
  const left = [value];
  while (left.length > 0 && parts <= maxParts) {
    const part = left.pop();
    if (typeof part !== 'object' || part === null) continue;
    const inside: unknown[] = Object.values(part);
    parts += inside.length;
    if (parts <= maxParts) left.push(...inside);
  }
  return parts > maxParts;
}

export type MessageFor = (
  error: Pick<ErrorObject, 'keyword' | 'params' | 'message' | 'parentSchema'>,
  value?: () => unknown,
) => string;

export interface Validator {
  (value: unknown): true | { error: DomainError };
  faultsOf(value: unknown, messageFor?: MessageFor): Fault[];
  isValid(value: unknown): boolean;
}

const compiled = new WeakMap<object, Validator>();

/**
 * Returns the validator of a schema, always the same one. It compiles the schema at its first use: a process uses few of
 * all schemas.
 */
export function compile(schema: object): Validator {
  const known = compiled.get(schema) ?? makeValidator(schema);
  compiled.set(schema, known);
  return known;
}

function makeValidator(given: object): Validator {
  let schema: object | undefined;
  const isValid = (value: unknown): boolean => {
    const check = checker.compile((schema ??= withDefinitions(given))); // cached by Ajv after the first call
    const valid = check(value);
    if (!valid) forgetErrors(check);
    return valid;
  };
  const faultsOf = (value: unknown, messageFor: MessageFor = messageOf): Fault[] => {
    if (isValid(value)) return [];
    const find = (isLarge(value) ? checker : finder).compile(schema!); // cached by Ajv after the first call
    const faults = find(value) ? [] : toFaults(value, find.errors!, messageFor);
    forgetErrors(find);
    return faults;
  };
  const validate = (value: unknown) => {
    const faults = faultsOf(value);
    return faults.length === 0 || { error: validationFailed(faults) };
  };
  return Object.assign(validate, { faultsOf, isValid });
}

/**
 * Returns the schema with each named part once, in `$defs`. Ajv compiles it once, too: the filters of contacts as one
 * function take 0.7 s and, when V8 optimises that, 250 MB. Parts of one name are equal, as in the API document. Parts of
 * alternatives stay where they are, because their paths tell to which alternative an error belongs.
 */
function withDefinitions(schema: object): object {
  const $defs: Schema = {};
  const refer = (part: unknown): unknown => {
    if (!isObject(part)) return part;
    const copy = () => Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, refer(inner)]));
    const { title } = part as Schema;
    if (typeof title !== 'string') return copy();
    $defs[title] ??= copy();
    return { $ref: `#/$defs/${title}` };
  };
  return { ...(refer(schema) as object), $defs };
}

/** Ajv keeps the last errors of each function that it made. They contain the value, which can be large. */
function forgetErrors(check: ValidateFunction): void {
  check.errors = null;
  for (const { validate } of Object.values(check.schemaEnv.refs) as SchemaEnv[]) validate!.errors = null;
}

function toFaults(value: unknown, errors: ErrorObject[], messageFor: MessageFor): Fault[] {
  const faults = new Map<string, Fault>();
  for (const error of withoutBranches(errors)) {
    const path = pointerOf(error);
    // Of an invalid name, Ajv reports the name and then its object.
    if (faults.has(path) || (error.propertyName !== undefined && error.keyword === 'pattern')) continue;
    // The `description` of the schema of `not` says what is wrong.
    const { description = error.message } = (error.parentSchema?.['not'] ?? {}) as { description?: string };
    const named = error.keyword === 'not' ? { ...error, message: description! } : error;
    const message = messageFor(named, () => valueAt(value, error.instancePath));
    faults.set(path, { path, message: error.propertyName === undefined ? message : `has a name that ${message}` });
    if (faults.size > maxFaults) break;
  }
  return [...faults.values()];
}

/**
 * Reduces the errors of alternatives (`anyOf`), because Ajv reports those of every alternative. Keeps the errors of the
 * alternative that accepts values of this type, with several the one with fewest errors. If none accepts the type,
 * returns one error for all.
 */
function withoutBranches(errors: ErrorObject[]): ErrorObject[] {
  const kept: ErrorObject[] = [];
  for (const error of errors) {
    if (error.keyword !== 'anyOf') {
      kept.push(error);
      continue;
    }
    const { instancePath } = error;
    const first =
      kept.findLastIndex(
        (one) =>
          !one.schemaPath.startsWith(`${error.schemaPath}/`) || !`${one.instancePath}/`.startsWith(`${instancePath}/`),
      ) + 1;
    const branches = Object.values(
      Object.groupBy(
        kept.splice(first),
        ({ schemaPath }) => schemaPath.slice(error.schemaPath.length + 1).split('/')[0]!,
      ),
    ) as ErrorObject[][];
    const isOther = (one: ErrorObject[]): boolean =>
      one.some((of) => of.keyword === 'type' && of.instancePath === instancePath);
    const [closest] = branches.filter((one) => !isOther(one)).sort((a, b) => a.length - b.length);
    const types = typesOf(error.parentSchema!);
    if (closest || types.length === 0) kept.push(...(closest ?? []));
    else kept.push({ ...error, keyword: 'type', params: { type: types } });
  }
  return kept;
}

type Schema = Record<string, unknown>;

const typesOf = ({ anyOf }: Schema): unknown[] => [...new Set((anyOf as Schema[]).flatMap(({ type = [] }) => type))];

const valueAt = (value: unknown, pointer: string): unknown => valueIn(value, tokensOf(pointer));

const valueIn = (value: unknown, tokens: readonly string[]): unknown =>
  tokens.reduce<unknown>((part, token) => (part as Schema | undefined)?.[token], value);

function pointerOf({ instancePath, params, propertyName }: ErrorObject): string {
  const property: string | undefined =
    params['missingProperty'] ?? params['additionalProperty'] ?? params['propertyName'] ?? propertyName;
  return property === undefined ? instancePath : `${instancePath}/${escapePointer(property)}`;
}

const messageOf: MessageFor = (error, value) => keywordMessage(error, value) + emptyForm(error.parentSchema, value?.());

/** Returns how a text that is refused as null or "" is sent empty, if it can be. */
function emptyForm({ type, enum: values, format, pattern, minLength }: Schema = {}, given?: unknown): string {
  const isNullable = Array.isArray(type) && type.includes('string') && type.includes('null');
  if (given === '' && isNullable) return '; send null for none';
  const isFree = type === 'string' && !values && !pattern && !minLength && (!format || format === 'country');
  return given === null && isFree ? '; send "" for none' : '';
}

const keywordMessage: MessageFor = (error, value) => {
  const { keyword, params, parentSchema } = error;
  switch (keyword) {
    case 'required':
    case 'dependentRequired':
      return 'is required';
    case 'additionalProperties':
    case 'propertyNames':
      return `is not known here; allowed: ${allowedIn(parentSchema ?? {})}`;
    case 'pattern':
      if (params['pattern'] === choicePattern) return 'must not begin or end with white space';
      return isOfNames(params['pattern']) ? `must be one of ${namesIn(params['pattern'])}` : error.message!;
    case 'maxItems':
      return `must have at most ${params['limit']} elements`;
    case 'minItems':
      return `must have at least ${params['limit']} elements`;
    case 'uniqueItems':
      return `elements ${params['i']} and ${params['j']} are the same`;
    case 'type':
      return typeMessage(params['type'], (parentSchema ?? {}) as TypedSchema);
    case 'enum':
      return `must be one of ${params['allowedValues'].join(', ')}`;
    case 'maxLength':
      return parentSchema?.['format'] in formatNames
        ? formatMessage(parentSchema!['format'] as Format, value)
        : `must have at most ${params['limit']} characters`;
    case 'minLength':
      return params['limit'] === 1 ? 'must not be empty' : `must have at least ${params['limit']} characters`;
    case 'minimum':
    case 'maximum':
      return Math.abs(params['limit']) === Number.MAX_SAFE_INTEGER
        ? `is a number beyond ±${Number.MAX_SAFE_INTEGER}: send it as a text`
        : error.message!;
    case 'format':
      return formatMessage(params['format'] as Format, value);
    default:
      return error.message ?? 'is not valid';
  }
};

const isOfNames = (pattern: string): boolean => /^\^\([a-z]/.test(pattern);

const namesIn = (pattern: string): string =>
  pattern
    .slice(2, -2)
    .replace(customPattern.slice(1, -1), 'custom_fields.<key>')
    .replaceAll('[.]', '.')
    .replaceAll('|', ', ');

const allowedIn = ({ properties = {}, patternProperties }: Schema): string =>
  [...Object.keys(properties as object), ...(patternProperties ? ['custom_fields.<key>'] : [])].join(', ') || 'nothing';

const typeNames: Record<string, string> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  null: 'null',
};

interface TypedSchema {
  enum?: unknown[];
  examples?: unknown[];
  properties?: object;
}

function typeMessage(types: string | string[], { enum: values, examples = [], properties = {} }: TypedSchema): string {
  const [example] = examples;
  if (values) return `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}`;
  const names = [types].flat().map((type) => typeNames[type] ?? type);
  const form = example === undefined ? undefined : JSON.stringify(example);
  const shown = form && form.length <= 200 ? `, such as ${form}` : '';
  const known = Object.keys(properties);
  const members = shown === '' && known.length > 0 ? ` with ${known.join(', ')}` : '';
  return `must be ${names.join(' or ')}${members}${shown}`;
}

function formatMessage(format: Format, value?: () => unknown): string {
  const given = value?.();
  if (format !== 'country' || typeof given !== 'string') return `must be ${formatNames[format]}`;
  const code = countryCode(given);
  const shown = JSON.stringify(given.length > 32 ? `${given.slice(0, 32)}…` : given);
  return `${shown} is not a country code${code === undefined ? ', such as DE' : `; send "${code}"`}`;
}

const formatNames: Record<Format, string> = {
  uuid: 'a UUID',
  email: 'an e-mail address',
  'date-time':
    'an RFC 3339 date-time with an offset, such as 2026-03-14T00:00:00Z, of a real date in the years 0001 to 9999',
  'feed-start':
    'start, now, or an RFC 3339 date-time with an offset, such as 2026-03-14T00:00:00Z, of a real date in the years 0001 to 9999',
  domain: 'a domain such as example.com, or a web address',
  name: '1 to 255 characters, not counting white space around them',
  'key-name': '1 to 120 characters, not counting white space around them',
  country: 'an ISO 3166-1 alpha-2 country code, or empty',
  currency: 'an ISO 4217 currency code',
};

const validators = new Map<string, Validator>();

function validatorOf(kind: BatchKind, operation: BatchOperation, match: MatchField): Validator {
  const name = `${kind.title} ${operation} ${match}`;
  const validator = validators.get(name) ?? compile(batchItem(kind, operation, match));
  validators.set(name, validator);
  return validator;
}

export interface ItemRules {
  kind: BatchKind;
  operation: BatchOperation;
  match: MatchField;
  /** True if the items can contain text that PostgreSQL cannot store. Only then is each item checked for such text. */
  mayBeUnstorable: boolean;
}

/**
 * Validates each item with the schema for a single record.
 * @returns the items themselves, or an error `validation_failed` with the first faults of the item. After
 *   `maxBatchFaults.inAll` faults in all items, further errors contain none
 */
export async function checkItems(
  { kind, operation, match, mayBeUnstorable }: ItemRules,
  items: readonly unknown[],
): Promise<(object | DomainError)[]> {
  const validator = validatorOf(kind, operation, match);
  const stretch = new TimeSlice();
  const checked: (object | DomainError)[] = [];
  let room = maxBatchFaults.inAll;
  for (const item of items) {
    const error = room > 0 ? errorOf(validator, item, mayBeUnstorable) : briefErrorOf(validator, item, mayBeUnstorable);
    room -= error?.faults.length ?? 0;
    checked.push(error ?? (item as object));
    if (stretch.isOver) await stretch.pause();
  }
  return checked;
}

function errorOf(validator: Validator, item: unknown, mayBeUnstorable: boolean): DomainError | undefined {
  const unstorable = mayBeUnstorable ? findUnstorableText(item) : [];
  const paths = new Set(unstorable.map(({ path }) => path));
  const faults: Fault[] = [...unstorable, ...validator.faultsOf(item).filter(({ path }) => !paths.has(path))];
  if (faults.length === 0) return undefined;
  // The message counts all faults.
  const { message } = validationFailed(faults);
  return new DomainError('validation_failed', message, { faults: faults.slice(0, maxBatchFaults.ofItem) });
}

const briefErrorOf = (validator: Validator, item: unknown, mayBeUnstorable: boolean): DomainError | undefined =>
  validator.isValid(item) && !(mayBeUnstorable && findUnstorableText(item).length > 0)
    ? undefined
    : new DomainError('validation_failed', 'values of this item are not valid; the batch has too many faults to list');
