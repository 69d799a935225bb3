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

const fairList = Buffer.from(
  'Vorname;Nachname;E-Mail;Firma;Land;Telefon;Notizen\n' +
    'Käthe;von der Heide;kaethe@nordwerk.example;Nordwerk GmbH;Deutschland;+49 511 1234567;interested in 40 seats\n' +
    'Jean;Martin;jean@atelier.example;Atelier Martin;Frankreich;+33 4 72 00 00 00;\n' +
    'Max;Muster;no address;Muster AG;Germoney;12;call back\n',
);

/** Pages to which no link leads: forms lead there, or mistakes. */
const others = [
  ['/app/prospects/unlock?do=first&number=20', 'app-prospects-unlock'],
  ['/app/contacts/chosen?all=1&do=list', 'app-contacts-chosen'],
  ['/app/contacts?search=nobody', 'app-contacts-none'],
  ['/app/nothing', 'app-nothing'],
] as const;

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
  await fill(page);
  const pages = await crawl(async (path) => {
    const answer = await browser.context.request.get(`${url}${path}`);
    return { status: answer.status(), body: await answer.text() };
  });
  for (const { path } of pages.filter(({ path }) => kindOf(path).includes(only))) await shoot(page, path);
  for (const [path, name] of others) if (path.includes(only)) await shoot(page, path, name);
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

/** Makes what the demo lacks: duplicates, a saved view, an endpoint, and imports that are checked and that wait. */
async function fill(page: Page): Promise<void> {
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  for (const first of ['Ada', 'Augusta Ada']) {
    await page.goto(`${url}/app/contacts/new`);
    await page.getByLabel('First name').fill(first);
    await page.getByLabel('Last name').fill('Lovelace');
    await page.getByLabel('Work e-mail').fill('ada@lovelace.example');
    await press('Create the contact');
    if (first !== 'Ada') await press('Create it all the same');
  }
  await page.goto(`${url}/app/views/new?object=contacts&query=country%3DDE`);
  await page.getByLabel('Name', { exact: true }).fill('Germany');
  await press('Save the view');
  await take(page, 'app-contacts-view');
  await page.goto(`${url}/app/webhooks/new`);
  await page.getByLabel('URL', { exact: true }).fill('https://hooks.example/sales');
  await page.getByLabel('Credits are low').check();
  await press('Create the endpoint');
  await take(page, 'app-webhooks-secret');
  for (const name of ['Fair in Hannover.csv', 'Fair in Lyon.csv']) {
    await page.goto(`${url}/app/imports/new`);
    await page.getByLabel('File', { exact: true }).setInputFiles({ name, mimeType: 'text/csv', buffer: fairList });
    await press('Upload and preview');
    await take(page, 'app-imports-preview');
    if (name === 'Fair in Lyon.csv') break;
    await press('Check first');
    await page.getByRole('button', { name: /^Import these/ }).waitFor({ timeout: 120_000 });
    await take(page, 'app-imports-checked');
  }
}

function nameOf(path: string): string {
  return kindOf(path).replaceAll(':id', 'one').replaceAll(/\W+/g, '-').slice(1) || 'start';
}

async function shoot(page: Page, path: string, name = nameOf(path)): Promise<void> {
  const answer = await page.goto(`${url}${path}`);
  process.stdout.write(`${answer!.status()} ${kindOf(path)}\n`);
  await take(page, name);
}

async function take(page: Page, name: string): Promise<void> {
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    for (const width of widths) {
      await page.setViewportSize({ width, height: 900 });
      // What sticks to the window's edge stands at the page's.
      const height = (await page.locator('html').boundingBox())!.height;
      await page.setViewportSize({ width, height: Math.ceil(height) });
      await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
  }
}
