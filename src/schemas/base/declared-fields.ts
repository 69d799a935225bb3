import { Type, type Static } from '@sinclair/typebox';
import { isInstant } from './formats.ts';
import { Enum, Strict } from './wire.ts';

/** The types that a customer can give to a custom field. */
export const declaredTypes = ['text', 'long_text', 'number', 'boolean', 'date', 'url', 'choice'] as const;
export type DeclaredType = (typeof declaredTypes)[number];

/** The records whose custom fields can be declared. */
export type DeclaredObject = 'contacts' | 'companies';

/** Of the contacts or the companies of a customer. */
export const maxDeclared = 200;

export interface DeclaredField {
  key: string;
  /** What people call it. */
  label: string;
  type: DeclaredType;
  /** Empty if the type is not `choice`. */
  choices: string[];
}

/** PostgreSQL cannot store NUL. No record can have a field called `__proto__`. */
export const KeyParams = Strict({
  key: Type.String({
    minLength: 1,
    maxLength: 64,
    pattern: String.raw`^(?!__proto__$)[^\0]+$`,
    description: 'The member of `custom_fields`.',
    examples: ['plan'],
  }),
});

export const Declaration = Strict(
  {
    label: Type.Optional(
      Type.String({ format: 'key-name', maxLength: 1_000, description: 'Its name for people. By default the key.' }),
    ),
    type: Enum(
      declaredTypes,
      'What its values are. A `date` is `YYYY-MM-DD`, a `url` begins with `https://` or `http://`.',
    ),
    choices: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 255, pattern: String.raw`^\S([\s\S]*\S)?$` }), {
        minItems: 1,
        maxItems: 200,
        uniqueItems: true,
        description: 'The values of a `choice`, and only of it.',
      }),
    ),
  },
  {
    title: 'FieldDeclaration',
    examples: [{ label: 'Plan', type: 'choice', choices: ['silver', 'gold'] }],
  },
);
export type Declaration = Static<typeof Declaration>;

/** Choices that a message names. */
const maxNamed = 10;

/** Returns why a value cannot be one of a field, and what would be right. Undefined if it can. */
export function faultOfValue(
  { type, choices }: Pick<DeclaredField, 'type' | 'choices'>,
  value: unknown,
): string | undefined {
  switch (type) {
    case 'number':
      return typeof value === 'number' ? undefined : 'is not a number (such as 12.5)';
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'is neither true nor false';
    case 'date':
      return isDay(value) ? undefined : 'is not a date (such as 2026-12-31)';
    case 'url':
      return isWebAddress(value) ? undefined : 'is not a web address (such as https://example.com)';
    case 'choice':
      return choices.includes(value as string) ? undefined : `is not one of its choices: ${named(choices)}`;
    default:
      return typeof value === 'string' ? undefined : 'is not a text (such as "12")';
  }
}

const isDay = (value: unknown): boolean =>
  typeof value === 'string' && value.length === 10 && isInstant(`${value}T00:00:00Z`);

const isWebAddress = (value: unknown): boolean =>
  typeof value === 'string' && /^https?:\/\/\S+$/i.test(value) && URL.canParse(value);

const named = (choices: readonly string[]): string =>
  [...choices.slice(0, maxNamed), ...(choices.length > maxNamed ? [`and ${choices.length - maxNamed} more`] : [])].join(
    ', ',
  );
