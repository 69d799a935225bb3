import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Page } from 'playwright-core';
import { openBrowser } from '../setup/browser.ts';
import { freePort } from '../setup/free-port.ts';
import { crawl, kindOf } from './crawl.ts';

/*
 * `make pictures`: starts the service with the demo customer, and takes a picture of every page, in three widths and
 * two colour schemes. `ONLY=contacts` takes those whose path contains this text. `PICTURES` is the folder.
 */

const widths = [390, 768, 1280];
const schemes = ['light', 'dark'] as const;
const folder = process.env['PICTURES'] ?? 'pictures';
const only = process.env['ONLY'] ?? '';

const data = await mkdtemp(join(tmpdir(), 'pictures-'));
const port = String(await freePort());
const url = `http://127.0.0.1:${port}`;
const words = ['src/cli.ts', 'serve', '--with-worker', '--migrate', '--demo', '--json'];
const environment = { ...process.env, DATA_DIR: data, PORT: port, LOG_LEVEL: 'silent', RATE_LIMITS: 'off' };
const server = spawn(process.execPath, words, { env: environment, stdio: ['ignore', 'pipe', 'inherit'] });
const browser = await openBrowser();
try {
  const [email, password] = await readLogin();
  await mkdir(folder, { recursive: true });
  const page = await browser.context.newPage();
  await shoot(page, '/app/login');
  await logIn(page, email, password);
  const pages = await crawl(async (path) => {
    const answer = await browser.context.request.get(`${url}${path}`);
    return { status: answer.status(), body: await answer.text() };
  });
  for (const { path } of pages.filter(({ path }) => kindOf(path).includes(only))) await shoot(page, path);
} finally {
  await browser.close();
  server.kill('SIGTERM');
  await new Promise((resolve) => server.once('exit', resolve));
  await rm(data, { recursive: true, force: true });
}

/** Waits until the service runs, and returns the demo's login, which it prints. */
async function readLogin(): Promise<[email: string, password: string]> {
  for await (const line of createInterface(server.stdout)) {
    const { email, password } = JSON.parse(line).demo;
    return [email, password];
  }
  throw new Error('the service did not start');
}

async function logIn(page: Page, email: string, password: string): Promise<void> {
  await page.goto(`${url}/app/login`);
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL(`${url}/app`);
}

async function shoot(page: Page, path: string): Promise<void> {
  const kind = kindOf(path);
  const name = kind.replaceAll(':id', 'one').replaceAll(/\W+/g, '-').slice(1) || 'start';
  const answer = await page.goto(`${url}${path}`);
  process.stdout.write(`${answer!.status()} ${kind}\n`);
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
  }
}
