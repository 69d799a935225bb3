import type { DeclaredRoute, Json } from './declared.ts';
import { placeOf, positionsOf, replaced, sampleBody, wholeBody } from './positions.ts';
import { knownOf, placeAt, type Records } from './records.ts';

/** The position of the id in a path, beside the JSON pointers of the ids in a body. */
export const thePath = 'the path';

/**
 * Returns the positions of all ids in a request: in the path and in the body; of an array also that of its second
 * element.
 */
export function idPositionsOf(route: DeclaredRoute): string[] {
  const inBody = positionsOf(route.body ?? {}).flatMap(({ pointer, schema }) =>
    schema['format'] === 'uuid' ? [pointer] : [],
  );
  const second = inBody
    .filter((pointer) => pointer.includes('/0'))
    .map((pointer) => pointer.replace(/\/0(?!.*\/0)/, '/1'));
  return [...(route.url.includes(':id') ? [thePath] : []), ...inBody, ...second];
}

/** Whether a pointer is that of an array's second element. */
export const isSecond = (pointer: string): boolean => /\/1(?!.*\/\d)/.test(pointer);

/** Pairs of fields of which a body has exactly one: the one that is sent, and the one that is left out. */
const eitherOf: Record<string, [string, string]> = {
  '/api/ext/service-handler/enrich-contacts': ['contact_ids', 'filters'],
};

/** Members that a smallest body has although none of them is required. */
const oneOfEach: Record<string, string[]> = { '/api/ext/activities': ['/body', '/contact_id'] };

/** Returns the smallest valid body. Its ids are those of the caller's own records. */
export function bodyFor(route: DeclaredRoute, records: Records): unknown {
  if (!route.body || route.method === 'HEAD') return undefined;
  const [sent] = eitherOf[route.url] ?? [];
  const known = knownOf(records, route);
  const more = (oneOfEach[route.url] ?? []).map((pointer) => sampleBody(route.body!, known, pointer) as Json);
  const body = sampleBody(route.body, known, sent && `/${sent}`);
  return more.length > 0 ? Object.assign({}, body, ...more) : body;
}

/** Returns a valid body with another id at `pointer`. Earlier elements of its array stay the caller's own. */
export function bodyWithId(route: DeclaredRoute, records: Records, pointer: string, id: string): unknown {
  if (!route.body || route.method === 'HEAD') return undefined;
  if (pointer === thePath) return bodyFor(route, records);
  const array = /^(.*)\/1(?!.*\/\d)/.exec(pointer)?.[1];
  const leftOut = eitherOf[route.url]?.[1] ?? '';
  const { [leftOut]: _, ...body } = wholeBody(
    route.body,
    knownOf(records, route),
    pointer.replace(/\/1(?!.*\/\d)/, '/0'),
  ) as Json;
  const prepared =
    array === undefined ? body : replaced(body, array, ([one]: unknown[]) => [one, structuredClone(one)]);
  return replaced(prepared, pointer, id);
}

/** Returns the path or the place of a body whose kind of record `recordAt` knows. */
export const placeIn = (route: DeclaredRoute, pointer: string): string =>
  pointer === thePath ? route.url : placeAt(route.url, placeOf(pointer));
