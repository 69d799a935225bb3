import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { describe, expect, test } from 'vitest';
import { contractFiles } from './committed.ts';
import { declaredRoutes, describeAccess, statusesOf } from './declared.ts';

/**
 * The endpoints that the API description and its decisions promise. Written by hand, not derived from the code that
 * they are compared with.
 */
const promised = `
  GET    /api/ext/customer/summary    customer:read      200
  GET    /api/ext/customer/users      customer:read      200

  POST   /api/ext/contacts/list       contacts:read      200
  POST   /api/ext/contacts/metadata   contacts:read      200
  POST   /api/ext/contacts            contacts:create    201
  GET    /api/ext/contacts/:id        contacts:read      200
  PATCH  /api/ext/contacts/:id        contacts:update    200
  DELETE /api/ext/contacts/:id        contacts:delete    200

  POST   /api/ext/company/list        companies:read     200
  POST   /api/ext/company/metadata    companies:read     200
  POST   /api/ext/company             companies:create   201
  GET    /api/ext/company/:id         companies:read     200
  PATCH  /api/ext/company/:id         companies:update   200
  DELETE /api/ext/company/:id         companies:delete   200

  POST   /api/ext/products/list       products:read      201
  POST   /api/ext/products            products:create    201
  GET    /api/ext/products/:id        products:read      200
  PATCH  /api/ext/products/:id        products:update    200
  DELETE /api/ext/products/:id        products:delete    200

  POST   /api/ext/opportunities/list  opportunities:read    201
  POST   /api/ext/opportunities       opportunities:create  201
  GET    /api/ext/opportunities/:id   opportunities:read    200
  PATCH  /api/ext/opportunities/:id   opportunities:update  200
  DELETE /api/ext/opportunities/:id   opportunities:delete  200

  GET    /api/ext/pipelines           pipelines:read     200
  GET    /api/ext/pipelines/:id       pipelines:read     200
  POST   /api/ext/stages/list         stages:read        201

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
  test.each(Object.keys(files).map((path) => [basename(path), path]))('equals the committed %s', async (name, path) => {
    const hint = `${name} is not what the routes say; if that was meant: npm run contract`;
    expect(await readFile(path, 'utf8').catch(() => ''), hint).toBe(files[path]);
  });

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
