import type { Ajv, AnySchema, ErrorObject, FuncKeywordDefinition, SchemaValidateFunction } from 'ajv';
import { escapePointer } from '../json-pointer.ts';

/**
 * Keywords of JSON Schema as the search for faults needs them; they mean what Ajv's own mean. Those that look at each
 * member of an array or an object end when more than `most` members are at fault: a body has room for hundreds of thousands,
 * and each error is an object. `not` says what its description says. Ajv keeps a keyword's last errors, so they hold nothing
 * of the body but short paths.
 * @param ajv compiles the schemas within
 */
export const faultKeywords = (ajv: Ajv, most: number): FuncKeywordDefinition[] => [
  {
    keyword: 'not',
    compile(schema: AnySchema) {
      const validate = ajv.compile(schema);
      return (value: unknown) => !validate(value);
    },
    error: { message: ({ schema }) => (schema as { description?: string }).description ?? 'is not allowed' },
  },
  keyword('items', 'array', most, (schema) => {
    const validate = ajv.compile(schema);
    return function* (array: unknown[]) {
      for (const [i, element] of array.entries()) if (!validate(element)) yield at(`/${i}`, validate.errors!);
    };
  }),
  keyword('additionalProperties', 'object', most, (schema, parentSchema) => {
    const validate = ajv.compile(schema);
    const known = new Set(Object.keys(parentSchema.properties ?? {}));
    return function* (object: Record<string, unknown>) {
      for (const name of Object.keys(object)) {
        if (known.has(name)) continue;
        if (schema === false)
          yield [
            { keyword: 'additionalProperties', instancePath: `/${escapePointer(name)}`, params: {}, parentSchema },
          ];
        else if (!validate(object[name])) yield at(`/${escapePointer(name)}`, validate.errors!);
      }
    };
  }),
  keyword('propertyNames', 'object', most, (schema) => {
    const validate = ajv.compile(schema);
    return function* (object: object) {
      for (const name of Object.keys(object))
        if (!validate(name))
          yield validate.errors!.map((error) => ({
            ...error,
            instancePath: `/${escapePointer(name)}`,
            message: `has a name that ${error.message}`,
          }));
    };
  }),
];

type ParentSchema = { properties?: object };

/** The errors of a value, those of each faulty member together; their paths start at the value. */
type ErrorsOf = (value: never) => Iterable<Partial<ErrorObject>[]>;

function keyword(
  name: string,
  type: 'array' | 'object',
  most: number,
  compile: (schema: AnySchema, parentSchema: ParentSchema) => ErrorsOf,
): FuncKeywordDefinition {
  return {
    keyword: name,
    type,
    errors: 'full',
    compile: (schema: AnySchema, parentSchema) => {
      const errorsOf = compile(schema, parentSchema as ParentSchema);
      const validate: SchemaValidateFunction = (value: unknown, context) => {
        const faulty = [...take(errorsOf(value as never), most + 1)];
        validate.errors = faulty.flatMap((errors) => at(context?.instancePath ?? '', errors));
        return faulty.length === 0;
      };
      return validate;
    },
  };
}

/** The errors with this before their paths. */
const at = (pointer: string, errors: Partial<ErrorObject>[]): Partial<ErrorObject>[] =>
  errors.map((error) => ({ ...error, instancePath: pointer + (error.instancePath ?? '') }));

function* take<T>(items: Iterable<T>, most: number): Iterable<T> {
  let taken = 0;
  for (const item of items) {
    yield item;
    if (++taken === most) return;
  }
}
