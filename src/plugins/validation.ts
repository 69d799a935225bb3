import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { Ajv2020, type ErrorObject, type Options } from 'ajv/dist/2020.js';
import { maxFaults, validationFailed, type DomainError, type Fault } from '../errors.ts';
import { filterKeywords } from '../filters/keywords.ts';
import { escapePointer } from '../json-pointer.ts';
import { faultKeywords } from '../schemas/fault-keywords.ts';
import { formats } from '../schemas/formats.ts';
import { keywords } from '../schemas/keywords.ts';
import { unkeepableTexts } from '../unkeepable-texts.ts';

/** Strict: nothing is coerced, defaulted or dropped. */
const options: Options = {
  strict: true,
  allowUnionTypes: true,
  formats,
  keywords: [...filterKeywords, ...keywords],
};

/** Says whether a value is valid; ends with the first fault, so that a huge value costs little. */
const checker = new Ajv2020(options);

/**
 * Finds the faults of a value that is not valid. Ajv collects all errors or one: its keywords for the members of arrays and
 * objects are replaced by such that end after `maxFaults`. Not verbose: then errors hold the body, and Ajv holds errors.
 */
const finder = new Ajv2020({ ...options, allErrors: true, meta: false, validateSchema: false });
for (const keyword of faultKeywords(finder, maxFaults)) {
  finder.removeKeyword(keyword.keyword as string);
  finder.addKeyword(keyword);
}

/** Validates a part of a request. */
interface Validator {
  (value: unknown): true | { error: DomainError };
  /** Every fault of the value, or more than `maxFaults` of them. */
  faultsOf(value: unknown): Fault[];
}

function compile(schema: object): Validator {
  const isValid = checker.compile(schema);
  const faultsOf = (value: unknown): Fault[] => {
    if (isValid(value)) return [];
    isValid.errors = null; // they can name a property, which can be as long as the body
    const find = finder.compile(schema); // kept by Ajv after the first time
    return find(value) ? [] : toFaults(find.errors!);
  };
  const validate = (value: unknown) => {
    const faults = faultsOf(value);
    return faults.length === 0 || { error: validationFailed(faults) };
  };
  return Object.assign(validate, { faultsOf });
}

/** Request validation for the whole app; a fault becomes `validation_failed`. */
export default fp(
  async (app) => {
    app.setValidatorCompiler(({ schema }) => compile(schema as object));
    app.addHook('preValidation', refuseUnkeepableTexts);
  },
  { name: 'validation', dependencies: ['json-body'] },
);

/** Only an escape can bring such a text past the check of UTF-8, so bodies without escapes are not walked. */
async function refuseUnkeepableTexts(request: FastifyRequest): Promise<void> {
  if (!request.bodyBytes.includes(String.raw`\u`)) return;
  const unkeepable = unkeepableTexts(request.body);
  if (unkeepable.length === 0) return;
  const validate = request.getValidationFunction('body') as unknown as Validator | undefined;
  const places = new Set(unkeepable.map(({ path }) => path));
  const others = validate?.faultsOf(request.body).filter(({ path }) => !places.has(path)) ?? [];
  throw validationFailed([...unkeepable, ...others]);
}

/** Ajv's errors as faults: one a place, in the caller's words; it ends with the first past `maxFaults`. */
function toFaults(errors: ErrorObject[]): Fault[] {
  const faults = new Map<string, Fault>();
  for (const error of errors) {
    const path = pointerOf(error);
    if (!faults.has(path)) faults.set(path, { path, message: messageOf(error) });
    if (faults.size > maxFaults) break;
  }
  return [...faults.values()];
}

/** Of a missing property: the pointer that it would have. */
function pointerOf({ instancePath, params }: ErrorObject): string {
  const property: string | undefined = params['missingProperty'];
  return property === undefined ? instancePath : `${instancePath}/${escapePointer(property)}`;
}

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

const formatNames: Record<string, string> = {
  uuid: 'a UUID',
  email: 'an e-mail address',
  'date-time': 'an RFC 3339 date-time with an offset, of a real date in the years 0001 to 9999',
  name: '1 to 255 characters, not counting white space around them',
  'key-name': '1 to 120 characters, not counting white space around them',
  country: 'an ISO 3166-1 alpha-2 country code, or empty',
  currency: 'an ISO 4217 currency code',
};
