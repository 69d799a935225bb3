import { createHook } from 'node:async_hooks';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import { appWithoutDatabase } from '../contract/declared.ts';

const app = appWithoutDatabase();
afterAll(() => app.close());

test('the script of the documentation is loaded once, however many ask for it at first', async () => {
  await app.ready();
  let loads = 0;
  const counter = createHook({ init: (_id, type) => void (loads += type === 'WORKER' ? 1 : 0) }).enable();
  onTestFinished(() => void counter.disable());
  const ask = () => app.inject('/docs/js/scalar.js');
  const answers = [...(await Promise.all(Array.from({ length: 20 }, ask))), await ask()];
  expect(loads).toBe(1);
  for (const { statusCode, headers, rawPayload } of answers) {
    expect([statusCode, headers['content-encoding']]).toEqual([200, 'gzip']);
    expect(rawPayload.equals(answers[0]!.rawPayload)).toBe(true);
  }
});

test('programs find the handbook as text, from an overview that names what is there', async () => {
  await app.ready();
  const overview = await app.inject('/llms.txt');
  expect([overview.statusCode, overview.headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8']);
  const links = [...overview.body.matchAll(/\]\((\/[^)]+)\)/g)].map(([, link]) => link!);
  expect(links).toContain('/docs/agents.md');
  for (const link of links) expect((await app.inject(link)).statusCode, link).toBe(200);
  expect((await app.inject('/docs/api.md')).headers['content-type']).toBe('text/markdown; charset=utf-8');
});
