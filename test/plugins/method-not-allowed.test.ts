import { METHODS } from 'node:http';
import { describe, expect, test } from 'vitest';
import { appWithoutDatabase, declaredRoutes } from '../contract/declared.ts';
import { inject } from '../setup/factories.ts';

// The requests have no key: these responses are sent before authentication.
const app = appWithoutDatabase();
await app.ready();

const { documented } = await declaredRoutes();
const methodsOf = Map.groupBy(documented, ({ url }) => url);
const paths = [...methodsOf].map(([url, routes]) => ({ url, taken: routes.map(({ method }) => method).toSorted() }));
const undecided = METHODS.filter((method) => method !== 'CONNECT');

const refusal = (statusCode: number, error: string, code: string) => ({
  statusCode,
  error,
  code,
  message: expect.any(String),
});

describe.each(paths)('$url', ({ url, taken }) => {
  test(`supports ${taken.join(', ')} and rejects every other method with 405, whatever the body`, async () => {
    for (const method of undecided.filter((one) => !taken.includes(one))) {
      const answer = await inject(app, method, url.replace(':id', '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'), '{"');
      expect(answer.status, method).toBe(405);
      expect(answer.headers['allow'], method).toBe(taken.join(', '));
      const body = refusal(405, 'Method Not Allowed', 'method_not_allowed');
      expect(answer.body, method).toEqual(method === 'HEAD' ? '' : body);
    }
  });

  test('supports HEAD where it supports GET', () => {
    expect(taken.includes('HEAD')).toBe(taken.includes('GET'));
  });
});

test('a fixed path wins over one with an id', async () => {
  const answer = await inject(app, 'GET', '/api/ext/contacts/list');
  expect(answer).toMatchObject({ status: 405, headers: { allow: 'POST' } });
});

test('the first page has an address with a slash at its end, too', async () => {
  const statuses = ['/app', '/app/'].map(async (path) => (await inject(app, 'GET', path)).status);
  expect(await Promise.all(statuses)).toEqual([303, 303]);
});

test('HEAD returns the headers of GET and no body', async () => {
  const [get, head] = [await inject(app, 'GET', '/healthz'), await inject(app, 'HEAD', '/healthz')];
  expect(head).toMatchObject({ status: 200, body: '', headers: { 'content-type': get.headers['content-type'] } });
  expect(head.headers['content-length']).toBe(get.headers['content-length']);
});

test('an unknown path is 404, whatever the method and the body', async () => {
  const unknown = ['/', '/api', '/api/ext', '/api/ext/nothing', '/api/ext/contacts/a/b', '/API/EXT/contacts'];
  for (const path of [...unknown, '/api/api-key/generate/', '//healthz', '/healthz/x'])
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const answer = await inject(app, method, path, '{"');
      expect(answer.status, `${method} ${path}`).toBe(404);
      expect(answer.body).toEqual(refusal(404, 'Not Found', 'not_found'));
    }
});

test('a path that cannot be decoded is 400', async () => {
  for (const path of ['/api/ext/contacts/%zz', '/api/ext/contacts/%', '/%E0%A4%A', '/api/ext/contacts/%ff'])
    expect((await inject(app, 'GET', path)).body, path).toMatchObject(refusal(400, 'Bad Request', 'validation_failed'));
});
