import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { endpointCreation } from '../../src/accounts/webhooks.ts';
import { commandLine } from '../../src/schemas/accounts.ts';
import { grantCredits } from '../../src/queries/jobs/credits.ts';
import { workAtAll } from '../jobs/importing.ts';
import { begin } from '../jobs/working.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { crawl, kindOf } from './crawl.ts';
import { hasBrowser, openBrowser, storedText, type LoopbackBrowser } from '../setup/browser.ts';
import { clientOf, contactBody, dbOf, inject, make, opportunityBody, stagesOf } from '../setup/factories.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { makeLogin, password } from '../setup/sessions.ts';

/** `make pictures` gives a folder for pictures of the pages. */
const pictures = process.env['PICTURES'];
const keyPattern = /sda_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}/;
const csv = 'E-Mail,First Name,last_name,Notes\nada@example.com,Ada,Lovelace,\nno address,Grace,Hopper,\n';

describe.runIf(hasBrowser)('/app in a browser (needs Chromium: apt-get install chromium)', () => {
  let app: TestApp;
  let browser: LoopbackBrowser;
  let url: string;
  let customer: TestCustomer;
  let email: string;
  const faults: string[] = [];

  beforeAll(async () => {
    app = await startApp();
    url = await app.fastify.listen({ host: '127.0.0.1', port: 0 });
    browser = await openBrowser();
    customer = await app.customer();
    ({ email } = await makeLogin(app.fastify, customer.id));
    browser.context.on('weberror', (error) => faults.push(error.error().message));
    browser.context.on('console', (message) => {
      // Chromium also reports answers such as 401 here; the tests provoke those.
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) faults.push(message.text());
    });
  });
  afterAll(async () => {
    await browser?.close();
    const wrong = [...faults, ...(browser?.refused ?? [])];
    if (wrong.length > 0) throw new Error(`Errors of pages, and requests to other hosts:\n${wrong.join('\n')}`);
  });

  async function open(path: string): Promise<Page> {
    const page = await browser.context.newPage();
    await page.goto(`${url}${path}`);
    return page;
  }

  async function logIn(page: Page, secret = password, user = email): Promise<void> {
    await page.getByLabel('E-mail address').fill(user);
    await page.getByLabel('Password').fill(secret);
    await page.getByRole('button', { name: 'Log in' }).click();
  }

  test('a person logs in, issues a key, copies it, and leaves no trace of it', async () => {
    await browser.context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: url });
    const page = await open('/app/keys/new');
    await logIn(page, 'wrong horse battery');
    await page.getByRole('alert').filter({ hasText: 'wrong' }).waitFor();
    expect(await page.evaluate('document.activeElement.id')).toBe('password');
    await logIn(page);
    await page.waitForURL('**/app/keys/new');
    await page.getByLabel('Name').fill('Nightly import');
    expect(await page.getByRole('checkbox', { name: 'Account and credits: read' }).count()).toBe(0);
    expect(await page.getByRole('textbox', { name: 'Records' }).count()).toBe(0);
    await page.getByRole('radio', { name: 'Only what is ticked here' }).check();
    expect(await page.getByRole('textbox', { name: 'Records' }).count()).toBe(1);
    await page.getByRole('checkbox', { name: 'Account and credits: read' }).check();
    await page.getByRole('radio', { name: /^Work with records/ }).check();
    await page.getByRole('button', { name: 'Issue the key' }).click();
    const key = await page.getByLabel('API key', { exact: true }).inputValue();
    expect(key).toMatch(keyPattern);
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText('Copied to the clipboard.').waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key);
    const authorization = `X-API-Key ${key}`;
    expect((await inject(app.fastify, 'GET', '/api/ext/customer/summary', undefined, { authorization })).status).toBe(
      200,
    );

    await page.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByRole('cell', { name: /^Nightly import/ }).waitFor();
    expect(await page.content()).not.toContain(key);
    expect(await page.evaluate(storedText)).not.toContain(key.slice(9));
    for (let i = 0; i < 3; i++) {
      await page.goBack().catch(() => null);
      expect(await page.content()).not.toContain(key);
      expect(await page.evaluate(storedText)).not.toContain(key.slice(9));
    }
    await page.close();
  });

  test('a note is edited in a dialog, whose labels name its own fields, and which Cancel closes', async () => {
    const contact_id = await make(customer, '/contacts', contactBody());
    const note = await make(customer, '/activities', { body: 'Old', contact_id });
    const page = await open(`/app/contacts/${contact_id}`);
    const openNote = async () => {
      await page.getByRole('link', { name: 'Edit: Old' }).click();
      return page.getByRole('dialog');
    };
    await (await openNote()).getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    const dialog = await openNote();
    await expectAccessible(page, 'dialog');
    const write = async (text: string) => {
      await dialog.getByText('Text', { exact: true }).click();
      await page.keyboard.press('Control+A');
      await page.keyboard.type(text);
    };
    await write(' ');
    const asked = page.waitForEvent('dialog').then((question) => question.dismiss().then(() => question.type()));
    await page.evaluate("location.assign('/app')");
    expect(await asked).toBe('beforeunload');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('Write something').waitFor();
    await expectAccessible(page, 'refused dialog');
    await write('New');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('It is saved.').waitFor();
    expect(new URL(page.url()).pathname).toBe(`/app/contacts/${contact_id}`);
    expect((await customer.get(`/activities/${note}`)).body.body).toBe('New');
    await page.close();
  });

  test('a form marks all that is wrong at once, but is not sent with a half typed number', async () => {
    const page = await open('/app/products/new');
    await page.getByRole('button', { name: 'Create the product' }).click();
    await page.getByText('Please look at the marked fields').waitFor();
    expect(await page.locator('[aria-invalid]').count()).toBe(2);
    expect(await page.evaluate('document.activeElement.id')).toBe('name');
    const id = await make(customer, '/contacts', contactBody({ birth_year: 1985 }));
    await page.goto(`${url}/app/contacts/${id}/edit`);
    const year = page.getByLabel('Year of birth');
    await year.evaluate((one) => one.closest('details')?.setAttribute('open', ''));
    await year.fill('');
    await year.pressSequentially('-');
    const save = page.getByRole('button', { name: 'Save' });
    await save.click();
    expect(await page.evaluate('document.activeElement.id')).toBe('birth_year');
    await year.fill('1986');
    await save.click();
    await page.getByText('It is saved.').waitFor();
    expect((await customer.get(`/contacts/${id}`)).body.birth_year).toBe(1986);
    await page.close();
  });

  test('a rule offers the values of its field as soon as the field is chosen', async () => {
    const page = await open('/app/lists/new');
    await page.getByLabel('Rule 1: field').selectOption('Country');
    await page.locator('select[aria-label="Rule 1: value"]').selectOption('Germany');
    await page.getByLabel('Rule 1: field').selectOption('Created');
    await page.locator('input[type="date"]').fill('2026-11-25');
    const comparison = page.getByLabel('Rule 1: comparison');
    expect(await comparison.inputValue()).toBe('equals');
    await page.locator('input[type="date"]').fill('');
    await comparison.selectOption('is on or after');
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.locator('td .fault').waitFor();
    await page.getByLabel('Rule 1: field').selectOption('Country');
    await comparison.selectOption('is one of');
    await page.locator('input[aria-label="Rule 1: value"]').fill('Germany, Au');
    const suggested = "[...document.querySelectorAll('datalist option')].map(({ value }) => value)";
    expect(await page.evaluate(suggested)).toContain('Germany, Austria');
    expect(await page.locator('.notice').count()).toBe(0);
    await page.close();
  });

  test('of records side by side, the rows whose values differ are tinted, from their names on', async () => {
    for (const job_title of ['Clerk', 'Chief'])
      await make(customer, '/contacts', contactBody({ work_email: 'twin@x.example', job_title }));
    const page = await open('/app/duplicates?by=work_email');
    await page.getByRole('link', { name: 'Compare twin@x.example' }).click();
    await page.getByRole('rowheader', { name: 'Job title' }).waitFor();
    const tintsOf = (name: string): Promise<string[]> =>
      page.evaluate(`(() => {
        const head = [...document.querySelectorAll('tbody th')].find((one) => one.textContent === '${name}');
        return [...new Set([...head.parentElement.children].map((one) => getComputedStyle(one).backgroundColor))];
      })()`);
    const [tint, other] = [await tintsOf('Job title'), await tintsOf('Stays')];
    expect(tint).toHaveLength(1);
    expect(other).not.toContain(tint[0]);
    await page.close();
  });

  test('a card is dragged to another stage, and the move can be undone there', async () => {
    const stages = await stagesOf(customer);
    const body = await opportunityBody(customer, { name: 'Two engines', stage_id: stages[0]!.id });
    const id = await make(customer, '/opportunities', body);
    const page = await open('/app/opportunities');
    const drag = (stage: number) =>
      page.locator(`[data-id="${id}"]`).dragTo(page.locator(`[data-stage="${stages[stage]!.id}"] h2`));
    await drag(1);
    await page.getByText(/It is moved to /).waitFor();
    expect((await customer.get(`/opportunities/${id}`)).body.stage_id).toBe(stages[1]!.id);
    await page.getByRole('button', { name: 'Undo' }).waitFor();
    await customer.patch(`/opportunities/${id}`, { stage_id: stages[2]!.id });
    await drag(0);
    await page.getByText(`Somebody else has moved it to ${stages[2]!.name} meanwhile.`).waitFor();
    await page.close();
  });

  test('a list fits the window, shows its buttons for chosen rows, and shows a row of three lines on a phone', async () => {
    const items = Array.from({ length: 20 }, () => contactBody({ job_title: 'Clerk', company: { name: 'Navy' } }));
    await customer.post('/contacts/batch/create', { items });
    const page = await open('/app/contacts');
    await page.setViewportSize({ width: 1280, height: 800 });
    const rows = page.locator('tbody tr');
    const [fifteenth, table] = [(await rows.nth(14).boundingBox())!, (await page.locator('.scroll').boundingBox())!];
    expect(fifteenth.y + fifteenth.height).toBeLessThanOrEqual(table.y + table.height);
    expect(await page.evaluate('document.documentElement.scrollHeight')).toBe(800);
    const act = page.getByRole('button', { name: 'Add to a list' });
    expect(await act.isVisible()).toBe(false);
    await page.locator('[name="id"]').first().check();
    expect(await act.isVisible()).toBe(true);
    expect(await page.locator('.scroll').evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
    await page.goto(`${url}/app/contacts?search=${items[0]!.work_email as string}`);
    await page.locator('[name="id"]').first().check();
    await page.getByText('Columns', { exact: true }).click();
    for (const box of await page.locator('[name="columns"]').all()) await box.click({ trial: true });
    await page.goto(`${url}/app/contacts`);
    await page.locator('[name="id"]').first().check();
    await page.setViewportSize({ width: 390, height: 800 });
    expect((await rows.first().boundingBox())!.height).toBeLessThan(100);
    const { y, height } = (await act.boundingBox())!;
    expect(y + height).toBeLessThanOrEqual(800);
    await page.close();
  });

  test('the focus stays where a task is completed or a card is moved, and / leads to the search for contacts', async () => {
    const contact_id = await make(customer, '/contacts', contactBody());
    for (const title of ['First', 'Second', 'Third'])
      await make(customer, '/activities', { type: 'task', title, contact_id });
    const page = await open(`/app/contacts/${contact_id}`);
    const focused = () => page.evaluate("document.activeElement.getAttribute('aria-label')");
    await page.getByRole('button', { name: 'Complete: Second' }).press('Enter');
    await page.getByText('The task is done.').waitFor();
    // Of tasks without a day, the newest stands first.
    await expect.poll(focused).toBe('Complete: First');
    const id = await make(customer, '/opportunities', await opportunityBody(customer, { name: 'Three engines' }));
    await page.goto(`${url}/app/opportunities`);
    await page.getByRole('link', { name: 'Move Three engines' }).press('Enter');
    await page.getByRole('dialog').getByRole('combobox').selectOption({ index: 1 });
    await page.getByRole('dialog').getByRole('button', { name: 'Move' }).press('Enter');
    await page.getByText(/It is moved to /).waitFor();
    await expect.poll(focused).toBe('Move Three engines');
    await page.keyboard.press('/');
    await page.keyboard.type('Lovelace');
    const found = page.locator('.find .panel');
    await found.getByText('Contact · ').first().waitFor();
    await expectAccessible(page, 'search');
    await page.keyboard.press('Escape');
    expect(await found.isVisible()).toBe(false);
    await page.keyboard.type('x');
    await found.getByText('Nothing is found').waitFor();
    await page.keyboard.press('Backspace');
    await found.getByText('Contact · ').first().waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/app/contacts/*`);
    await customer.delete(`/opportunities/${id}`);
    await page.close();
  });

  test('a person imports a file, and sees its progress without a reload', async () => {
    const page = await open('/app/imports/new');
    await page.getByText('Name and format').click();
    await page.getByLabel('Name of the import').fill('People');
    await page
      .getByLabel('File', { exact: true })
      .setInputFiles({ name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
    await page.getByRole('button', { name: 'Upload and preview' }).click();
    await page.getByRole('heading', { name: 'People' }).waitFor();
    expect(await page.getByLabel('Field of the column E-Mail').inputValue()).toBe('work_email');
    expect(await page.getByLabel('What to do with the records').inputValue()).toBe('upsert work_email');
    await expectAccessible(page, 'import preview');
    await page.setViewportSize({ width: 390, height: 800 });
    const middleOf = async (i: number): Promise<number> => {
      const { y, height } = (await page.locator('.stay > *').nth(i).boundingBox())!;
      return y + height / 2;
    };
    expect(await middleOf(0)).toBeCloseTo(await middleOf(1), -1);
    const empty = page.locator('td:empty');
    expect([await empty.count(), await empty.filter({ visible: true }).count()]).toEqual([2, 0]);
    await page.getByRole('button', { name: 'Import without a check' }).click();
    await page.getByText('pending').waitFor();
    await page.evaluate("document.querySelector('.sidebar').dataset.mark = 'kept'");
    await app.owner`update imports set created = 1, total = 3 where customer_id = ${customer.id} and status = 'PENDING'`;
    await page.getByText('1 of 3 records').waitFor();
    expect(await page.evaluate("document.querySelector('.sidebar').dataset.mark")).toBe('kept');
    const start = await open('/app');
    await start.getByRole('link', { name: 'People', exact: true }).focus();
    await app.owner`update imports set created = 2 where customer_id = ${customer.id} and status = 'PENDING'`;
    await start.getByText('2 of 3 records').waitFor();
    expect(await start.evaluate('document.activeElement.textContent')).toBe('People');
    await start.close();
    await app.owner`update imports set created = 0, total = null where customer_id = ${customer.id} and status = 'PENDING'`;
    await workAtAll(app, customer);
    await page.getByText('The import is complete.').waitFor();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download these records to correct them' }).click();
    expect((await download).suggestedFilename()).toBe('errors.csv');
    await page.close();
  });

  test('an ended session leads to the login from a live page too', async () => {
    const job = await begin(app, customer, 3);
    const page = await open(`/app/jobs/${job}`);
    await app.owner`update sessions set expires_at = now()`;
    await page.getByText('Your session has ended.').waitFor();
    await logIn(page);
    await page.waitForURL(`**/app/jobs/${job}`);
    expect(await page.getByText('0 of 3 addresses').count()).toBe(1);
    await page.close();
  });

  test('a form keeps its contents when the session ends before it is sent, for the same user only', async () => {
    const fillIn = async (): Promise<Page> => {
      const page = await open('/app/keys/new');
      await page.getByLabel('Name').fill('Half done');
      await page.getByLabel('Ends after').selectOption('7');
      await page.getByRole('radio', { name: /^Work with records/ }).check();
      await app.owner`update sessions set expires_at = now()`;
      await page.getByRole('button', { name: 'Issue the key' }).click();
      await page.getByText('Your session has ended.').waitFor();
      return page;
    };
    const page = await fillIn();
    await logIn(page, 'wrong horse battery');
    await page.getByRole('alert').filter({ hasText: 'wrong' }).waitFor();
    await logIn(page);
    await page.waitForURL('**/app/keys/new');
    expect(await page.getByLabel('Name').inputValue()).toBe('Half done');
    expect(await page.getByLabel('Ends after').inputValue()).toBe('7');
    expect(await page.getByRole('radio', { name: /^Work with records/ }).isChecked()).toBe(true);
    await page.getByRole('button', { name: 'Issue the key' }).click();
    await page.getByRole('heading', { name: 'Your new key' }).waitFor();
    await page.waitForLoadState(); // the script, which deletes the contents, runs before
    expect(await page.evaluate(storedText)).not.toContain('Half done');
    await page.close();

    const other = await fillIn();
    const { email: colleague } = await makeLogin(app.fastify, customer.id);
    await logIn(other, password, colleague);
    await other.waitForURL('**/app/keys/new');
    expect(await other.getByLabel('Name').inputValue()).toBe('');
    expect(await other.evaluate(storedText)).not.toContain('Half done');
    await other.getByRole('button', { name: 'Log out' }).click();
    await other.getByText('You are logged out.').waitFor();
    await logIn(other);
    await other.waitForURL('**/app');
    await other.close();
  });

  test('a form whose rows were moved before the session ended gives each row its own id back', async () => {
    const [before] = (await customer.get('/pipelines')).body as [{ id: string }];
    const stages = async () =>
      (await customer.get(`/pipelines/${before.id}`)).body.stages as { id: string; name: string }[];
    const [first, second, ...others] = (await stages()).map(({ id, name }) => ({ id, name }));
    const page = await open(`/app/pipelines/${before.id}/edit`);
    await page.getByRole('button', { name: 'Move stage 2 up' }).click();
    await page.waitForURL('**/edit#rows');
    await page.locator(':focus[aria-label="Move stage 1 down"]').waitFor();
    await app.owner`update sessions set expires_at = now()`;
    await page.getByRole('button', { name: 'Save the pipeline' }).click();
    await logIn(page);
    await page.waitForURL('**/edit');
    await page.getByRole('button', { name: 'Save the pipeline' }).click();
    await page.waitForURL('**/app/pipelines?*');
    expect(await stages()).toMatchObject([second, first, ...others]);
    await page.close();
  });

  test('a form with a row less than when the session ended shows the stored rows, and the rest as typed', async () => {
    const { body } = await customer.post('/list-contact', {
      name: 'Two rules',
      rules: ['CEO', 'CTO'].map((value) => ({ field: 'job_title', operator: 'equals', value, logic_operator: 'OR' })),
    });
    const page = await open(`/app/lists/${body.id}/edit`);
    await page.getByRole('button', { name: 'Remove rule 1' }).click();
    await page.waitForURL('**/edit#rows');
    await page.getByLabel('Name').fill('Half done');
    await app.owner`update sessions set expires_at = now()`;
    await page.getByRole('button', { name: 'Save the list' }).click();
    await logIn(page);
    await page.waitForURL('**/edit');
    expect(await page.getByLabel('Name').inputValue()).toBe('Half done');
    const shown = await page.getByLabel(/^Rule .: value$/).all();
    expect(await Promise.all(shown.map((one) => one.inputValue()))).toEqual(['CEO', 'CTO']);
    await page.close();
  });

  test('every page is accessible and fits, in both colour schemes and on three widths, and for the keys alone', async () => {
    await makeEverything();
    const pages = await crawl(async (path) => {
      const answer = await browser.context.request.get(`${url}${path}`);
      return { status: answer.status(), body: await answer.text() };
    });
    expect(pages.filter(({ status }) => status !== 200)).toEqual([]);
    const page = await open('/app');
    for (const { path } of [...pages, { path: '/app/nowhere' }]) {
      await page.goto(`${url}${path}`);
      await tabThrough(page, path);
      await look(page, path);
    }
    await issue(page);
    await look(page, '/app/keys/issued');
    await browser.context.clearCookies();
    await page.goto(`${url}/app/login?ended=1`);
    await look(page, '/app/login');
    await page.close();
  }, 1_200_000);

  async function issue(page: Page): Promise<void> {
    await page.goto(`${url}/app/keys/new`);
    await page.getByLabel('Name').fill('To look at');
    await page.getByRole('button', { name: 'Issue the key' }).click();
    await page.getByRole('heading', { name: 'Your new key' }).waitFor();
  }

  /**
   * Looks at a page in both colour schemes and up to three widths. By axe each page is checked once, and its other colours. The
   * frame around the content is the same on all pages, so the first page alone is checked in both layouts.
   */
  async function look(page: Page, path: string): Promise<void> {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' }); // axe would see colours half-way
      // A page that has just been loaded takes the scheme with its next frame.
      await expect.poll(() => backgroundOf(page), { message: path }).toBe(colorScheme);
      for (const width of colorScheme === 'dark' ? [390, 1280] : [390, 768, 1280]) {
        await page.setViewportSize({ width, height: 900 });
        expect([path, width, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([
          path,
          width,
          width,
        ]);
        const what = `${path} ${colorScheme} ${width}`;
        if (pictures)
          await take(page, `${pictures}/${kindOf(path).replaceAll(/\W+/g, '-')}-${width}-${colorScheme}.png`);
        if (width === 390 && colorScheme === 'light') await expectAccessible(page, what);
        if (width === 1280 && colorScheme === 'dark')
          await expectAccessible(page, what, path === '/app' ? undefined : ['color-contrast']);
      }
    }
  }

  async function backgroundOf(page: Page): Promise<'light' | 'dark'> {
    const background = await page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    return Number(/\d+/.exec(background)![0]) < 128 ? 'dark' : 'light';
  }

  async function take(page: Page, path: string): Promise<void> {
    const { width, height } = page.viewportSize()!;
    // What sticks to the window's edge stands at the page's.
    await page.setViewportSize({ width, height: Math.ceil((await page.locator('html').boundingBox())!.height) });
    await page.screenshot({ path, fullPage: true });
    await page.setViewportSize({ width, height });
  }

  /**
   * Expects that the key Tab leads to everything that can be used, in order, and that one sees where the focus is: in the
   * content of the page, and on the first page also in the frame around it.
   */
  async function tabThrough(page: Page, path: string): Promise<void> {
    const number = await page.evaluate<number>(watchFocus(path === '/app' ? 'body' : 'main'));
    // The parts of a date are stops, too.
    for (let i = 0; i < number + 8; i++) await page.keyboard.press('Tab');
    expect([path, await page.evaluate(faultsOfFocus)]).toEqual([path, { unreached: [], unseen: [], disordered: [] }]);
  }

  /** Makes records of every kind. */
  async function makeEverything(): Promise<void> {
    await dbOf(app.fastify).transaction((sql) =>
      grantCredits(sql, customer.id, { pool: 'subscription', amount: 5000, note: 'March' }),
    );
    const job = await begin(app, customer, 30);
    for (const [i, amount] of [3, 18, 7, 0, 25, 11].entries())
      if (amount > 0)
        await app.owner`
          insert into credit_entries (customer_id, id, pool, number, kind, amount, balance_after, reserved_after, job_id)
          values (${customer.id}, uuidv7(make_interval(days => ${-4 * i}::int)), 'verification', ${1000 + i}, 'charge',
            ${amount}, 0, 0, ${job})`;
    const [soon, later] = await Promise.all(
      [1, 2].map(() => clientOf(app.fastify, customer.id, customer.adminId, ['contacts:read', 'contacts:create'])),
    );
    await app.owner`update api_keys set name = 'Website', expires_at = now() + interval '5 days' where id = ${soon!.keyId}`;
    await app.owner`update api_keys set name = 'Data warehouse', expires_at = now() + interval '90 days', last_used_at = now() where id = ${later!.keyId}`;
    await customer.post('/imports', { object: 'contacts', mode: 'create', format: 'csv', start: false });
    const [waiting] =
      await app.owner`select id from imports where customer_id = ${customer.id} order by id desc limit 1`;
    await customer.call('PUT', `/imports/${waiting!['id']}/file`, csv, { 'content-type': 'text/csv' });
    const create = await endpointCreation(
      { db: dbOf(app.fastify), config: app.config, customerId: customer.id, by: commandLine },
      { url: 'https://receiver.example.com/webhooks', types: ['contact.created', 'job.ended'], description: 'CRM' },
    );
    await dbOf(app.fastify).transaction(create);
    await logInAgain();
  }

  async function logInAgain(): Promise<void> {
    const page = await open('/app/login');
    await logIn(page);
    await page.waitForURL('**/app');
    await page.close();
  }
});

/**
 * Records what gets the focus in a part of the page, and whether one sees that: by an outline or a ring around it, its label or
 * its button. Returns how many elements can be used; of radio buttons the chosen one.
 */
const watchFocus = (part: 'body' | 'main'): string => `(async () => {
  // The browser focuses a field with autofocus in one of the first frames.
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  document.querySelector('[data-live]')?.removeAttribute('data-live'); // what is updated would count as not reached
  const isMarked = (one, part) => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one, part);
    return (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none';
  };
  const part = document.querySelector('${part}');
  part.tabIndex = -1;
  part.focus(); // Tab begins at the top, also where a field has the focus at first
  document.body.removeAttribute('tabindex');
  usable = [...part.querySelectorAll('a[href], button:not([aria-hidden="true"]), input, select, textarea, summary, [tabindex="0"]')].filter(
    (one) => !one.disabled && one.type !== 'hidden' && (one.type !== 'radio' || one.checked) && one.checkVisibility({ visibilityProperty: true }),
  );
  stops = [];
  part.addEventListener('focusin', ({ target }) => {
    const parts = [[target], [target.closest('label') ?? target], [target, '::file-selector-button']];
    stops.push({ target, isSeen: target.matches('.skip') || parts.some((one) => isMarked(...one)) });
  });
  return usable.length;
})()`;

/** What `watchFocus` found wrong. */
const faultsOfFocus = `(() => {
  const shown = ({ outerHTML }) => outerHTML.slice(0, 200);
  const reached = stops.map(({ target }) => target);
  document.activeElement.blur();
  const isAfter = (one, other) => other.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING;
  return {
    unreached: usable.filter((one) => !reached.includes(one)).map(shown),
    unseen: stops.filter(({ isSeen }) => !isSeen).map(({ target }) => shown(target)),
    disordered: reached.filter((one, i) => one !== reached[0] && !isAfter(one, reached[i - 1])).map(shown),
  };
})()`;

/** Expects that axe finds no violation on a page as it is shown now. */
async function expectAccessible(page: Page, what: string, rules?: string[]): Promise<void> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source);
  const { violations } = await page.evaluate<axe.AxeResults>(
    `axe.run(${JSON.stringify({ resultTypes: ['violations'], ...(rules && { runOnly: rules }) })})`,
  );
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  expect([what, ...found]).toEqual([what]);
}
