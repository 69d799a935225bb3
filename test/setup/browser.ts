import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type BrowserContext } from 'playwright-core';

/** Path of the installed Chromium or Chrome; playwright's own download is not used. */
const executable = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

/** Whether a browser is installed. */
export const hasBrowser = executable !== undefined;

/** A browser that can reach only this machine, with the list of blocked requests. */
export interface LoopbackBrowser {
  context: BrowserContext;
  refused: string[];
  close(): Promise<void>;
}

/** Starts a real browser. Requests beyond loopback are blocked and recorded. */
export async function openBrowser(): Promise<LoopbackBrowser> {
  const profile = await mkdtemp(join(tmpdir(), 'browser-'));
  const quiet = [
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ];
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: executable!,
    args: ['--no-sandbox', ...quiet],
    viewport: { width: 1280, height: 1000 },
  });
  // A page that usually needs 4 s needed 15 s while other tests used the processors; a test has 120 s.
  context.setDefaultTimeout(90_000);
  const refused: string[] = [];
  await context.route(
    (url) => url.protocol.startsWith('http') && url.hostname !== '127.0.0.1',
    (route) => {
      refused.push(route.request().url());
      return route.abort();
    },
  );
  const close = async () => {
    await context.close();
    await rm(profile, { recursive: true, force: true });
  };
  return { context, refused, close };
}

/** Script for the browser. Its result is everything that pages of this origin have stored there, and the address, as JSON. */
export const storedText = `(async () => {
  const ready = (request) => new Promise((resolve) => request.addEventListener('success', () => resolve(request.result)));
  const stored = [{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state, await caches.keys()];
  for (const { name } of await indexedDB.databases()) {
    const database = await ready(indexedDB.open(name));
    for (const store of database.objectStoreNames)
      stored.push(await ready(database.transaction(store).objectStore(store).getAll()));
    database.close();
  }
  return JSON.stringify(stored);
})()`;
