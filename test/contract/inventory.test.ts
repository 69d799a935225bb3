import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { describe, expect, test } from 'vitest';
import { contractFiles } from './committed.ts';
import { declaredRoutes, describeAccess, statusesOf } from './declared.ts';

/**
 * The endpoints without a key that the API description promises. Written by hand, not derived from the code that they are
 * compared with. `released.test.ts` holds those with a key to what releases had.
 */
const promised = `
  POST   /api/api-key/generate        session admin      201
  GET    /api/api-key                 session admin      200
  PATCH  /api/api-key/update/:id      session admin      200
  PATCH  /api/api-key/revoke/:id      session admin      200
  POST   /api/auth/login              public             200
  POST   /api/auth/logout             session member     204
  POST   /api/auth/password           session member     204
  GET    /healthz                     public             200
  GET    /readyz                      public             200
`;

const { documented, hidden } = await declaredRoutes();
const files = await contractFiles();

describe('the contract', () => {
  test.each(Object.keys(files).map((path) => [basename(path), path]))(
    'the contract equals the committed %s',
    async (name, path) => {
      const hint = `${name} is not what the routes say; if that was meant: npm run contract`;
      expect(await readFile(path, 'utf8').catch(() => ''), hint).toBe(files[path]);
    },
  );

  const lines = promised
    .split('\n')
    .flatMap((line) => (line.trim() === '' ? [] : [line.trim().split(/\s{2,}|(?<=^[A-Z]+)\s+/)]));
  test.each(lines)('has %s %s for %s with status %s', (method, url, access, status) => {
    const route = documented.find((route) => route.name === `${method} ${url}`);
    expect(route && describeAccess(route.access)).toBe(access);
    expect(statusesOf(route!).success).toEqual([status]);
  });

  test('has no undocumented route that requires a credential, but the pages for people and the tools of agents', () => {
    // Tools describe themselves, in the form of their own protocol.
    const others = hidden.filter(
      ({ access, url }) => !('page' in access && /^\/app(\/|$)/.test(url)) && url !== '/mcp',
    );
    expect(others.filter(({ access }) => !('public' in access)).map(({ name }) => name)).toEqual([]);
    expect(documented.filter(({ access, url }) => 'page' in access || url.startsWith('/app'))).toEqual([]);
  });
});
