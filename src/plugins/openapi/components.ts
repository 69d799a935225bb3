type Json = Record<string, unknown>;

/**
 * Moves the schemas that have a title, all response headers, and the error responses of operations with rate limits to
 * the `components` of the OpenAPI document. Generated clients then get named types, and the document stays small.
 * @throws Error if two different components have the same name
 */
export function nameComponents(document: Json): Json {
  const schemas = new Components('schemas');
  const headers = new Components('headers');
  const responses = new Components('responses');
  const hoist = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(hoist);
    if (typeof node !== 'object' || node === null) return node;
    const walked = Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, data.has(key) ? value : hoist(value)]),
    );
    return isTitled(walked) ? referTo(schemas, walked) : walked;
  };
  const paths = Object.fromEntries(
    Object.entries(document['paths'] as Record<string, Json>).map(([path, operations]) => [
      path,
      Object.fromEntries(
        Object.entries(operations).map(([method, operation]) => [
          method,
          hoist(withResponses(operation as Operation, headers, responses)),
        ]),
      ),
    ]),
  );
  const components = {
    ...(document['components'] as Json),
    responses: hoist(responses.sorted()),
    schemas: schemas.sorted(),
    headers: headers.sorted(),
  };
  return { ...document, paths, components };
}

/** Keywords whose values are data, not schemas. */
const data = new Set(['example', 'examples', 'enum', 'const', 'default']);

interface Titled extends Json {
  title: string;
}

/** Returns whether an object of the document is a schema with a title, and not a map of fields one of which is `title`. */
const isTitled = (node: Json): node is Titled =>
  typeof node['title'] === 'string' && ['type', 'anyOf', 'oneOf'].some((keyword) => keyword in node);

/** Makes a component of a schema with a title. Returns the reference to it, which allows null if the schema does. */
function referTo(schemas: Components, { title, ...schema }: Titled): Json {
  const types: unknown = schema['type'];
  if (!Array.isArray(types) || !types.includes('null')) return schemas.add(title, schema);
  const [type] = types.filter((one) => one !== 'null') as string[];
  return { anyOf: [schemas.add(title, { ...schema, type }), { type: 'null' }] };
}

/** The part of an operation of the OpenAPI document that this file reads. */
interface Operation {
  'x-rate-limits'?: unknown;
  responses?: Record<string, Response>;
}

interface Response {
  headers?: Record<string, Json>;
  content?: Record<string, { schema: Json }>;
}

/**
 * Replaces the headers of an operation's responses by references to components, and also its error responses. Only
 * operations with rate limits have the common error responses: the others lack the headers.
 */
function withResponses(operation: Operation, headers: Components, errors: Components): Json {
  const isLimited = 'x-rate-limits' in operation;
  const responses = Object.entries(operation.responses ?? {}).map(([status, response]) => {
    const named = Object.entries(response.headers ?? {}).map(([name, header]) => [name, headers.add(name, header)]);
    const described = { ...response, headers: Object.fromEntries(named) };
    const title = response.content?.['application/json']?.schema['title'];
    const isCommon = isLimited && status >= '400' && typeof title === 'string';
    return [status, isCommon ? errors.add(title, described) : described];
  });
  return { ...operation, responses: Object.fromEntries(responses) };
}

/** The components of one kind, by name. */
class Components {
  readonly #kind: string;
  readonly #named = new Map<string, Json>();

  constructor(kind: string) {
    this.#kind = kind;
  }

  /**
   * Adds a component and returns the reference to it. If the component is there with another description, the reference
   * has the new one.
   * @throws Error if there is a different component with this name
   */
  add(name: string, component: Json): Json {
    const { description, examples: _, ...rest } = component;
    const known = this.#named.get(name);
    const reference = { $ref: `#/components/${this.#kind}/${name}` };
    if (!known) {
      this.#named.set(name, component);
      return reference;
    }
    const { description: knownDescription, examples: __, ...knownRest } = known;
    if (JSON.stringify(knownRest) !== JSON.stringify(rest))
      throw new Error(`The OpenAPI document has two different ${this.#kind} with the name ${name}`);
    return knownDescription === description ? reference : { ...reference, description };
  }

  sorted(): Json {
    return Object.fromEntries([...this.#named].toSorted(([one], [other]) => (one < other ? -1 : 1)));
  }
}
