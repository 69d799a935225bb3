import { describe, expect, test } from 'vitest';
import { appWithoutDatabase } from '../contract/declared.ts';
import { inject } from '../setup/factories.ts';

const contact = '/api/ext/contacts/0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
const origin = 'https://app.example.com';
const preflight = {
  origin,
  'access-control-request-method': 'PATCH',
  'access-control-request-headers': 'authorization,content-type,if-match,idempotency-key',
};
const corsHeaders = (headers: object): string[] =>
  Object.keys(headers).filter((name) => name.startsWith('access-control-'));

describe('without CORS_ORIGINS', () => {
  const app = appWithoutDatabase();

  test('no response allows browsers', async () => {
    const answers = [
      await inject(app, 'OPTIONS', contact, undefined, preflight),
      await inject(app, 'GET', contact, undefined, { origin }),
      await inject(app, 'GET', '/healthz', undefined, { origin }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([405, 401, 200]);
    expect(answers.flatMap(({ headers }) => corsHeaders(headers))).toEqual([]);
  });
});

describe('with CORS_ORIGINS', () => {
  const app = appWithoutDatabase({ CORS_ORIGINS: `https://other.example.com, ${origin}` });

  test('a browser of a listed origin may use every method, send every header and read the headers of the contract, of errors too', async () => {
    const answer = await inject(app, 'OPTIONS', contact, undefined, preflight);
    expect(answer).toMatchObject({ status: 204, headers: { 'access-control-allow-origin': origin } });
    expect(String(answer.headers['access-control-allow-methods']).split(', ')).toEqual(
      expect.arrayContaining(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE']),
    );
    expect(answer.headers['access-control-allow-headers']).toBe(preflight['access-control-request-headers']);
    const { headers, status } = await inject(app, 'GET', contact, undefined, { origin });
    expect([status, headers['access-control-allow-origin']]).toEqual([401, origin]);
    expect(headers['access-control-expose-headers']).toMatch(/etag.*x-next-cursor.*x-request-id/);
  });

  test('a browser of another origin is not allowed', async () => {
    const headers = { ...preflight, origin: 'https://evil.example.com' };
    for (const answer of [
      await inject(app, 'OPTIONS', contact, undefined, headers),
      await inject(app, 'GET', '/healthz', undefined, headers),
    ])
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  });

  test('OPTIONS without preflight headers is an unsupported method', async () => {
    expect(await inject(app, 'OPTIONS', contact)).toMatchObject({
      status: 405,
      headers: { allow: 'DELETE, GET, HEAD, PATCH' },
    });
    expect(await inject(app, 'OPTIONS', '/nothing', undefined, { origin })).toMatchObject({ status: 404 });
  });
});
