import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { maxFaults, validationFailed, type Fault } from '../errors.ts';
import { filterKeywords } from '../filters/keywords.ts';
import { formats } from '../schemas/formats.ts';
import { keywords } from '../schemas/keywords.ts';
import { unkeepableTexts } from '../unkeepable-texts.ts';

/** Strict: nothing is coerced, defaulted or dropped, and every fault is reported. */
const ajv = new Ajv2020({
  allErrors: true,
  strict: true,
  allowUnionTypes: true,
  verbose: true,
  formats,
  keywords: [...filterKeywords, ...keywords],
});

/** Request validation for the whole app; a fault becomes `validation_failed`. */
export default fp(
  async (app) => {
    app.setValidatorCompiler(({ schema }) => ajv.compile(schema as object));
    app.setSchemaErrorFormatter((errors) => validationFailed(toFaults(errors as ErrorObject[])));
    app.addHook('preValidation', refuseUnkeepableTexts);
  },
  { name: 'validation', dependencies: ['json-body'] },
);

/** Only an escape can bring such a text past the check of UTF-8, so bodies without escapes are not walked. */
async function refuseUnkeepableTexts(request: FastifyRequest): Promise<void> {
  if (!request.bodyBytes.includes(String.raw`\u`)) return;
  const unkeepable = unkeepableTexts(request.body);
  if (unkeepable.length === 0) return;
  const validate = request.getValidationFunction('body') as ValidateFunction | undefined;
  const others = validate && !validate(request.body) ? toFaults(validate.errors!) : [];
  const places = new Set(unkeepable.map(({ path }) => path));
  throw validationFailed([...unkeepable, ...others.filter(({ path }) => !places.has(path))].slice(0, maxFaults));
}

/** Ajv's errors as faults: one a place, in the caller's words. */
export function toFaults(errors: ErrorObject[]): Fault[] {
  const faults = new Map<string, Fault>();
  for (const error of errors) {
    const path = pointerOf(error);
    if (!faults.has(path)) faults.set(path, { path, message: messageOf(error) });
    if (faults.size === maxFaults) break;
  }
  return [...faults.values()];
}

/** Of a missing or an unknown property: the pointer that it has or would have. */
function pointerOf({ instancePath, params }: ErrorObject): string {
  const property: string | undefined =
    params['missingProperty'] ?? params['additionalProperty'] ?? params['propertyName'];
  return property === undefined
    ? instancePath
    : `${instancePath}/${property.replaceAll('~', '~0').replaceAll('/', '~1')}`;
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
    case 'not':
      return (error.schema as { description?: string }).description ?? 'is not allowed';
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
