import type { TSchema } from '@sinclair/typebox';
import type { Fault } from '../../errors.ts';
import { noDomain, noEmail, quoted } from '../../files/values/read-value.ts';
import { customFieldsLimits } from '../../schemas/base/wire.ts';
import { lengthOf } from '../../text/code-points.ts';
import { tokensOf } from '../../text/json-pointer.ts';

/** What the validator says begins like this; other messages are for people already. */
const isOfValidator = (message: string): boolean => /^(?:must|has a name that must)\b|^is required$/.test(message);

/** Returns the fault in words for people: the value, and what would be right. */
export function plainFault(schema: TSchema, item: object, fault: Fault): Fault {
  if (!isOfValidator(fault.message)) return fault;
  const tokens = tokensOf(fault.path);
  return { ...fault, message: messageFor(schemaAt(schema, tokens), valueAt(item, tokens)) };
}

/** Returns the fault with the value before its message, which says what the value is not. */
export const withValue = (item: object, { path, message }: Fault): Fault => ({
  path,
  message: `${shown(valueAt(item, tokensOf(path)))} ${message}`,
});

const valueAt = (item: object, tokens: readonly string[]): unknown =>
  tokens.reduce<unknown>(
    (value, token) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, token)
        ? (value as Record<string, unknown>)[token]
        : undefined,
    item,
  );

const schemaAt = (schema: TSchema, tokens: readonly string[]): TSchema =>
  tokens.reduce<TSchema>((at, token) => {
    const properties = (at['properties'] ?? {}) as Record<string, TSchema>;
    const next = Object.hasOwn(properties, token) ? properties[token] : (at['items'] ?? at['additionalProperties']);
    return typeof next === 'object' && next !== null ? (next as TSchema) : ({} as TSchema);
  }, schema);

const typesOf = (schema: TSchema): readonly string[] => [schema['type'] ?? []].flat() as string[];

function messageFor(schema: TSchema, value: unknown): string {
  const types = typesOf(schema);
  if (value === undefined) return 'is missing';
  if (value === null) return String.raw`cannot be emptied (\N)`;
  if (types.includes('array')) return arrayMessage(schema, value);
  if (types.includes('object')) return objectMessage(value);
  const isNumber = types.includes('integer') || types.includes('number');
  if (isNumber && !types.includes('string')) return numberMessage(schema, value);
  return typeof value === 'string' ? textMessage(schema, value) : `${shown(value)} is not a text`;
}

function arrayMessage({ maxItems }: TSchema, value: unknown): string {
  if (!Array.isArray(value)) return `${shown(value)} is not a list`;
  return value.length > maxItems ? `has more than ${maxItems} values` : 'is not allowed here';
}

function objectMessage(value: unknown): string {
  if (typeof value !== 'object' || Array.isArray(value)) return `${shown(value)} is not a JSON object`;
  const { keys, bytes } = customFieldsLimits;
  if (Object.keys(value!).length > keys) return `has more than ${keys} keys`;
  if (JSON.stringify(value).length > bytes) return `is longer than ${bytes / 1024} KiB of JSON`;
  return 'has a name that is empty or longer than 64 characters';
}

const numberMessage = ({ minimum, maximum }: TSchema, value: unknown): string =>
  typeof value === 'number' && minimum !== undefined && maximum !== undefined
    ? `${shown(value)} is not a whole number from ${minimum} to ${maximum}`
    : `${shown(value)} is not a number`;

function textMessage(schema: TSchema, value: string): string {
  const most = schema['format'] === 'name' ? 255 : (schema['maxLength'] as number | undefined);
  if (value.trim() === '') return 'is empty';
  if (most !== undefined && lengthOf(value.trim()) > most) return `${quoted(value)} is longer than ${most} characters`;
  switch (schema['format']) {
    case 'email':
      return noEmail(value);
    case 'domain':
      return noDomain(value);
    case 'country':
      return `${quoted(value)} is not a country code (such as DE)`;
    case 'uuid':
      return `${quoted(value)} is not an id (a UUID)`;
    case 'date-time':
      return `${quoted(value)} is not a time (such as 2024-12-31T12:00:00Z)`;
    default:
      return `${quoted(value)} is not allowed here`;
  }
}

const shown = (value: unknown): string =>
  typeof value === 'string' ? quoted(value) : JSON.stringify(value).slice(0, 100);
