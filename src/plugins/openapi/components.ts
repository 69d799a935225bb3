type Json = Record<string, unknown>;

/**
 * Moves repeated parts of an OpenAPI document to its section `components`: schemas with a title, response headers, and
 * the error responses of operations with rate limits. So generated clients get named types, and the document is
 * smaller.
 * @throws Error if two different components have the same name.
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

const data = new Set(['example', 'examples', 'enum', 'const', 'default']);

interface Titled extends Json {
  title: string;
}

/**
 * Returns true if an object in the OpenAPI document is a schema with a title. Returns false for a map of fields that
 * has a field named `title`.
 */
const isTitled = (node: Json): node is Titled =>
  typeof node['title'] === 'string' && ['type', 'anyOf', 'oneOf'].some((keyword) => keyword in node);

/**
 * Adds a schema with a title to the components, and returns a reference to the component. If the schema allows null,
 * the reference allows null too.
 */
function referTo(schemas: Components, { title, ...schema }: Titled): Json {
  const types: unknown = schema['type'];
  if (!Array.isArray(types) || !types.includes('null')) return schemas.add(title, schema);
  const [type] = types.filter((one) => one !== 'null') as string[];
  return { anyOf: [schemas.add(title, { ...schema, type }), { type: 'null' }] };
}

interface Operation {
  'x-rate-limits'?: unknown;
  responses?: Record<string, Response>;
}

interface Response {
  headers?: Record<string, Json>;
  content?: Record<string, { schema: Json }>;
}

// Operations without rate limits have other headers in their error responses.
/**
 * Moves the response headers of an operation to the components, and replaces them by references. If the operation has
 * rate limits, does the same with the error responses.
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

class Components {
  readonly #kind: string;
  readonly #named = new Map<string, Json>();

  constructor(kind: string) {
    this.#kind = kind;
  }

  /**
   * Adds a component and returns a reference to it. If the component already exists with a different description, the
   * reference contains the new description.
   * @throws Error if a different component with this name exists.
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
