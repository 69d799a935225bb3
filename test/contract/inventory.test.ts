import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { describe, expect, test } from 'vitest';
import { contractFiles } from './committed.ts';
import { declaredRoutes } from './declared.ts';

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

  test('has no undocumented route that requires a credential, but the pages for people and the tools of agents', () => {
    // Tools describe themselves, in the form of their own protocol.
    const others = hidden.filter(
      ({ access, url }) => !('page' in access && /^\/app(\/|$)/.test(url)) && url !== '/mcp',
    );
    expect(others.filter(({ access }) => !('public' in access)).map(({ name }) => name)).toEqual([]);
    expect(documented.filter(({ access, url }) => 'page' in access || url.startsWith('/app'))).toEqual([]);
  });
});
