import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseConfig } from '../src/config.ts';
import { startApp, type TestApp } from './setup/app.ts';
import { hasBrowser, openBrowser, type LoopbackBrowser } from './setup/browser.ts';

describe.runIf(hasBrowser)('/docs in a browser (needs Chromium: apt-get install chromium)', () => {
  let app: TestApp;
  let browser: LoopbackBrowser;
  let url: string;

  beforeAll(async () => {
    app = await startApp();
    url = await app.fastify.listen({ host: '127.0.0.1', port: 0 });
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());

  test('shows every operation and can try out a call, without a request beyond this machine', async () => {
    const { key } = await app.customer();
    const page = await browser.context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    await page.goto(`${url}/docs`);
    await page.locator('.opblock').first().waitFor();
    const document = app.fastify.swagger() as { paths: Record<string, object> };
    const operations = Object.values(document.paths).reduce((sum, path) => sum + Object.keys(path).length, 0);
    expect(await page.locator('.opblock').count()).toBe(operations);

    await page.getByRole('button', { name: 'Authorize' }).first().click();
    await page.locator('.auth-container input[type=text]').first().fill(`X-API-Key ${key}`);
    await page.locator('.auth-container').getByRole('button', { name: 'Apply credentials' }).first().click();
    await page.locator('.modal-ux .close-modal').click();
    const list = page.locator('.opblock', { has: page.locator('[data-path="/api/ext/contacts/metadata"]') });
    await list.locator('.opblock-summary-control').click();
    await list.getByRole('button', { name: 'Try it out' }).click();
    await list.locator('textarea').fill('{}');
    await list.getByRole('button', { name: 'Execute' }).click();
    await list.locator('.live-responses-table').waitFor();
    expect(await list.locator('.live-responses-table .response-col_status').last().innerText()).toContain('200');
    if (process.env['SCREENSHOTS']) await page.screenshot({ path: `${process.env['SCREENSHOTS']}/docs.png` });
    expect(errors).toEqual([]);
    expect(browser.refused).toEqual([]);
  });
});

test('every test that SECURITY.md names exists', () => {
  const root = join(import.meta.dirname, '..');
  const named = readFileSync(join(root, 'SECURITY.md'), 'utf8').match(/test\/[\w/.-]+\.ts/g) ?? [];
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((file) => !existsSync(join(root, file)))).toEqual([]);
});

test.each([
  ['sales-data-api.service', 'serve'],
  ['sales-data-api-worker.service', 'work'],
])('%s sends SIGTERM to node and leaves it the time to stop', (file, verb) => {
  const unit = readFileSync(join(import.meta.dirname, '..', 'deploy', 'systemd', file), 'utf8');
  expect(unit).toContain(`\nExecStart=/usr/bin/env node src/cli.ts ${verb}\n`);
  expect(unit).toContain('\nKillSignal=SIGTERM\n');
  const { SHUTDOWN_MS } = parseConfig({});
  const graceMs = 5_000; // as compose.yaml sets it
  expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)![1]) * 1000).toBeGreaterThan(graceMs + SHUTDOWN_MS + 15_000);
});

test('every link within the documentation leads to a file and a heading', () => {
  const root = join(import.meta.dirname, '..');
  const pages = [
    'README.md',
    'SECURITY.md',
    ...['architecture', 'catalog', 'contributing', 'operating'].map((name) => `docs/${name}.md`),
  ];
  const broken = pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8');
    const links = [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)];
    return links.filter(
      ([, file, heading]) => !leadsSomewhere(join(root, file ? join(page, '..', file) : page), heading),
    );
  });
  expect(broken.map(([link]) => link)).toEqual([]);
});

/** Returns whether a page exists and has a heading with this anchor, as GitHub forms it. */
function leadsSomewhere(file: string, anchor: string | undefined): boolean {
  if (!existsSync(file)) return false;
  if (anchor === undefined) return true;
  const headings = readFileSync(file, 'utf8').match(/^#+ .*$/gm) ?? [];
  const anchors = headings.map((one) =>
    one
      .replace(/^#+ /, '')
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
  return anchors.includes(anchor);
}
