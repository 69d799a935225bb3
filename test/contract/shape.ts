/**
 * What programs may rely on in an OpenAPI document, one line for each fact: `in POST /x .name: string`,
 * `in POST /x .name required`, `out POST /x 200 [].id: string`, `in POST /x .kind = "a"`. A schema with a name has its own
 * lines, for each direction.
 */
export function shapeOf(document: Document): string[] {
  const facts = new Set<string>();
  const named = new Set<string>();
  const walk = (schema: Schema, at: string): void => {
    if (schema.$ref !== undefined) {
      const name = schema.$ref.split('/').at(-1)!;
      const place = `${at.split(' ')[0]} ${name}`;
      facts.add(`${at} is ${name}`);
      if (named.has(place)) return;
      named.add(place);
      walk(document.components.schemas[name]!, place);
      return;
    }
    for (const type of [schema.type ?? []].flat()) facts.add(`${at}: ${type}`);
    if (at.startsWith('in ')) for (const value of schema.enum ?? []) facts.add(`${at} = ${JSON.stringify(value)}`);
    for (const [name, member] of Object.entries(schema.properties ?? {})) walk(member, `${at}.${name}`);
    for (const name of schema.required ?? []) facts.add(`${at}.${name} required`);
    if (schema.items) walk(schema.items, `${at}[]`);
    for (const one of [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])]) walk(one, at);
  };
  for (const [path, methods] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const place = `${method.toUpperCase()} ${path} `;
      facts.add(`op ${place}scopes ${(operation['x-required-scopes'] ?? []).join(' ')}`);
      const body = operation.requestBody?.content?.['application/json']?.schema;
      if (operation.requestBody?.required) facts.add(`in ${place} required`);
      if (body) walk(body, `in ${place}`);
      for (const { name, in: where, required } of operation.parameters ?? []) {
        facts.add(`in ${place}${where} ${name}`);
        if (required) facts.add(`in ${place}${where} ${name} required`);
      }
      for (const [status, { content }] of Object.entries(operation.responses)) {
        if (!status.startsWith('2')) continue;
        facts.add(`op ${place}${status}`);
        for (const [type, { schema }] of Object.entries(content ?? {}))
          if (schema) walk(schema, `out ${place}${status} ${type} `);
      }
    }
  return [...facts].toSorted();
}

interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
}

interface Operation {
  'x-required-scopes'?: string[];
  requestBody?: { required?: boolean; content?: Record<string, { schema?: Schema }> };
  parameters?: { name: string; in: string; required?: boolean }[];
  responses: Record<string, { content?: Record<string, { schema?: Schema }> }>;
}

const isRequired = (fact: string): boolean => fact.endsWith(' required');
/** The member that a fact is about. */
const placeOf = (fact: string): string => fact.replace(/(: \w+| required| = .*| is \w+)$/, '');
const parentOf = (place: string): string => place.replace(/(\[\]|\.[^.[\]]+)$/, '');

/** Returns what programs that were written for an earlier shape may stumble over in a later one. */
export function breaksOf(earlier: readonly string[], later: readonly string[]): string[] {
  const [before, after] = [new Set(earlier), new Set(later)];
  const [known, kept] = [
    new Set(earlier.map(placeOf)),
    new Set(later.filter((fact) => !isRequired(fact)).map(placeOf)),
  ];
  const gone = earlier.filter((fact) => {
    if (after.has(fact)) return false;
    if (fact.startsWith('in ')) return !isRequired(fact);
    // A response may have fewer types than it had, but not lose a member.
    return !/: \w+$/.test(fact) || !kept.has(placeOf(fact));
  });
  const added = later.filter((fact) => {
    if (before.has(fact)) return false;
    if (fact.startsWith('in '))
      return isRequired(fact) && (known.has(parentOf(placeOf(fact))) || known.has(placeOf(fact)));
    return fact.startsWith('out ') && /: \w+$/.test(fact) && known.has(placeOf(fact));
  });
  return [...gone.map((fact) => `gone: ${fact}`), ...added.map((fact) => `new: ${fact}`)];
}
