import type { Ajv, AnySchema, ErrorObject, FuncKeywordDefinition, SchemaValidateFunction } from 'ajv';
import { escapePointer, tokensOf } from '../../text/json-pointer.ts';

/**
 * Versions of Ajv keywords, such as `items`, that limit the memory for errors. Ajv's own report the errors of all
 * elements of a huge array.
 * @param ajv compiles the schemas of elements and properties
 * @param max invalid elements or properties of one array or object; one more is reported
 */
export const faultKeywords = (ajv: Ajv, max: number): FuncKeywordDefinition[] => [
  {
    keyword: 'not',
    compile(schema: AnySchema) {
      const validate = ajv.compile(schema);
      return (value: unknown) => !validate(value);
    },
    // The `description` of the schema of `not` is its error message.
    error: { message: ({ schema }) => (schema as { description?: string }).description ?? 'is not allowed' },
  },
  keyword('items', 'array', max, (schema) => {
    const validate = ajv.compile(schema);
    return function* (array: unknown[]) {
      for (const [i, element] of array.entries())
        if (!validate(element)) yield at(`/${i}`, withParents(schema, validate.errors!));
    };
  }),
  keyword('additionalProperties', 'object', max, (schema, parentSchema) => {
    const validate = ajv.compile(schema);
    const known = new Set(Object.keys(parentSchema.properties ?? {}));
    return function* (object: Record<string, unknown>) {
      for (const name of Object.keys(object)) {
        if (known.has(name)) continue;
        if (schema === false)
          yield [
            { keyword: 'additionalProperties', instancePath: `/${escapePointer(name)}`, params: {}, parentSchema },
          ];
        else if (!validate(object[name])) yield at(`/${escapePointer(name)}`, withParents(schema, validate.errors!));
      }
    };
  }),
  keyword('propertyNames', 'object', max, (schema) => {
    const validate = ajv.compile(schema);
    return function* (object: object) {
      for (const name of Object.keys(object))
        if (!validate(name))
          yield validate.errors!.map((error) => ({
            ...error,
            keyword: 'propertyNames',
            instancePath: `/${escapePointer(name)}`,
            message: `has a name that ${error.message}`,
          }));
    };
  }),
];

type ParentSchema = { properties?: object };

/** Validates the elements of an array or the properties of an object. Yields the errors of each invalid one. */
type ErrorsOf = (value: never) => Iterable<Partial<ErrorObject>[]>;

function keyword(
  name: string,
  type: 'array' | 'object',
  max: number,
  compile: (schema: AnySchema, parentSchema: ParentSchema) => ErrorsOf,
): FuncKeywordDefinition {
  return {
    keyword: name,
    type,
    errors: 'full',
    compile: (schema: AnySchema, parentSchema) => {
      const errorsOf = compile(schema, parentSchema as ParentSchema);
      const validate: SchemaValidateFunction = (value: unknown, context) => {
        const faulty = [...take(errorsOf(value as never), max + 1)];
        validate.errors = faulty.flatMap((errors) => at(context?.instancePath ?? '', errors));
        return faulty.length === 0;
      };
      return validate;
    },
  };
}

/** Adds to each error the part of the schema that it violates, which Ajv itself adds only together with the value. */
export const withParents = (schema: AnySchema, errors: Partial<ErrorObject>[]): Partial<ErrorObject>[] =>
  errors.map((error) => {
    const parentSchema = error.parentSchema ?? parentIn(schema, error.schemaPath);
    return parentSchema ? { ...error, parentSchema } : error;
  });

function parentIn(schema: AnySchema, path = ''): Record<string, unknown> | undefined {
  const tokens = tokensOf(decodeURIComponent(path.replace(/^#/, ''))).slice(0, -1);
  return tokens.reduce<unknown>((part, token) => (part as Record<string, unknown> | undefined)?.[token], schema) as
    Record<string, unknown> | undefined;
}

const at = (pointer: string, errors: Partial<ErrorObject>[]): Partial<ErrorObject>[] =>
  errors.map((error) => ({ ...error, instancePath: pointer + (error.instancePath ?? '') }));

function* take<T>(items: Iterable<T>, max: number): Iterable<T> {
  let taken = 0;
  for (const item of items) {
    yield item;
    if (++taken === max) return;
  }
}
