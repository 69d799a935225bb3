import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startWorkers, type Workers } from '../../src/jobs/workers.ts';
import { person, writePeople } from '../catalog/people.ts';
import { contextOf } from '../jobs/working.ts';
import { inWindows1252, plain, quoted } from '../messy/writing.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { hasBrowser, openBrowser, type LoopbackBrowser } from '../setup/browser.ts';
import { grant } from '../setup/factories.ts';
import { startNameServer } from '../setup/name-server.ts';
import { makeLogin, password } from '../setup/sessions.ts';
import { readSheet } from '../setup/xlsx.ts';

const names = await startNameServer();
const domain = names.name({ mx: [[1, 'mail.test']] });
const firms = ['Bäckerei Groß e.K.', 'Müller & Söhne GmbH', 'Weiß Logistik SE'];

/** What a colleague has typed at the stand: 70 visitors, of whom three came twice, and an empty row. */
function tradeFairList(): Buffer {
  const visitors = Array.from({ length: 70 }, (_, i) => {
    const [first, last] = [
      ['Jürgen', 'Käthe', 'Björn', 'Sabine', 'Ute'][i % 5]!,
      ['Schäfer', 'von der Heide', 'Weiß'][i % 3]!,
    ];
    const mail = `${plain(first)}.${plain(last)}${i}@${domain}`;
    return [
      `${['', 'Dr. ', '', 'Frau Prof. Dr. '][i % 4]!}${first} ${last}`,
      firms[i % 3]!,
      ['0711 / 5550-100', 'siehe Karte', '', '+49 (0)89 555000'][i % 4]!,
      i % 2 === 0 ? `0171-${5550000 + i}` : '',
      i === 7 ? '' : i % 9 === 0 ? ` ${mail.toUpperCase()}` : mail,
      ['Deutschland', 'DE', 'Germoney'][i % 3]!,
      ['Rückruf; dringend', '', 'sagt "später"'][i % 3]!,
    ];
  });
  const twice = visitors.slice(20, 23).map((cells) => cells.with(2, '').with(5, 'Deutschland'));
  const header = ['Name', 'Firma', 'Telefon', 'Handy', 'Mail', 'Land', 'Notizen'];
  const rows = [header, ...visitors, header.map(() => ''), ...twice];
  return inWindows1252(rows.map((cells) => `${cells.map((cell) => quoted(cell, ';')).join(';')}\r\n`).join(''));
}

describe.runIf(hasBrowser)('a sales manager (needs Chromium: apt-get install chromium)', () => {
  let app: TestApp;
  let workers: Workers;
  let browser: LoopbackBrowser;
  let page: Page;
  let url: string;

  beforeAll(async () => {
    app = await startApp({ VERIFY_DNS_SERVERS: names.address });
    await app.catalog.prepare();
    const colleagues = Array.from({ length: 24 }, (_, i) =>
      person({
        job_company_name: firms[i % 3]!,
        first_name: 'Eva',
        last_name: `No${i}`,
        work_email: `no${i}@${domain}`,
      }),
    );
    await writePeople(app.catalog, [...colleagues, person({ job_company_name: 'Somebody Else AG' })]);
    await app.catalog.finish();
    workers = await startWorkers({ ...contextOf(app), url: app.url });
    url = await app.fastify.listen({ host: '127.0.0.1', port: 0 });
    browser = await openBrowser();
    page = await browser.context.newPage();
  });
  afterAll(async () => {
    await browser?.close();
    await workers?.stop();
  });

  const press = (name: string | RegExp) => page.getByRole('button', { name }).click();
  const follow = (name: string | RegExp) => page.getByRole('link', { name }).first().click();
  const sees = (text: string | RegExp) => page.getByText(text).first().waitFor();

  test('imports the list of a trade fair, cleans it, finds colleagues, verifies and exports, without a question', async () => {
    const customer = await app.customer();
    await grant(app.fastify, customer.id, 'subscription', 100);
    await grant(app.fastify, customer.id, 'verification', 100);
    const { email } = await makeLogin(app.fastify, customer.id);
    await page.goto(url);
    await page.getByLabel('E-mail address').fill(email);
    await page.getByLabel('Password').fill(password);
    await press('Log in');

    // The file is taken as it is. What cannot be read is said in words, before anything is written.
    await follow('Imports');
    await press('New import');
    await page
      .getByLabel('File', { exact: true })
      .setInputFiles({ name: 'Messe Hannover.csv', mimeType: 'text/csv', buffer: tradeFairList() });
    await press('Upload and preview');
    await page.getByRole('heading', { name: 'Messe Hannover.csv' }).waitFor();
    await sees('Record 3: Country: "Germoney" is not a country');
    await page.getByLabel('Field of the column Notizen').selectOption('Your own field “Notizen”');
    await page.getByLabel('What to do with the records').selectOption('Create all anew');
    await page.getByLabel('Name of the new list').fill('Messe Hannover');
    await press('Check first');
    await sees('73 would be created');
    await press('Import these 73 now');
    await sees('The import is complete.');

    // Those who came twice are merged: each value that only one of the two has is kept.
    await follow('look for duplicates');
    for (const left of [2, 1, 0]) {
      await follow(/^Compare/);
      await press('Merge');
      await page.waitForURL('**/duplicates?by=work_email&done=1&change=*');
      expect(await page.getByRole('link', { name: /^Compare/ }).count()).toBe(left);
    }

    // The other people of these companies are in the catalog.
    await follow('Lists');
    await follow('Messe Hannover');
    await page.getByRole('heading', { name: '70 contacts' }).waitFor();
    await follow('Find other people of their companies');
    await sees('24 match, of which you have unlocked 0');
    await page.getByLabel('The first').fill('20');
    await press('Unlock that many');
    await sees('At most 20 credits');
    await page.getByLabel('Name of the new list').fill('Colleagues');
    await press('Unlock now');
    await sees('completed');
    await follow('the list');
    await page.getByRole('heading', { name: '20 contacts' }).waitFor();

    await press('Verify');
    await page.getByRole('dialog').getByRole('button', { name: 'Verify the list' }).click();
    await sees('completed');
    await follow('the list');
    expect(await page.getByText('not verified').count()).toBe(0);

    // What Excel shows is what the pages show.
    const people = await exported();
    expect(people).toHaveLength(20);
    expect(
      people.every(({ Lists, 'E-mail status': status }) => Lists === 'Colleagues' && status !== 'unverified'),
    ).toBe(true);
    await follow('Lists');
    await follow('Messe Hannover');
    const visitors = await exported();
    expect(visitors).toHaveLength(70);
    const kathe = visitors.find((row) => row['Work e-mail'] === `kathe.vonderheide1@${domain}`);
    expect(kathe).toMatchObject({
      'First name': 'Käthe',
      'Last name': 'von der Heide',
      Company: firms[1],
      Country: 'DE',
      Lists: 'Messe Hannover',
    });
    expect(visitors.filter(({ Notizen }) => Notizen === 'Rückruf; dringend')).toHaveLength(24);
    expect(browser.refused).toEqual([]);
  }, 60_000);

  async function exported() {
    const download = page.waitForEvent('download');
    await follow('Excel');
    return (await readSheet(await readFile(await (await download).path()))).records;
  }
});
