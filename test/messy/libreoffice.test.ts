import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'csv-parse/sync';
import { expect, onTestFinished, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { readSheet } from '../setup/xlsx.ts';

const hasLibreOffice = spawnSync('soffice', ['--version']).status === 0;

test.runIf(hasLibreOffice)(
  'LibreOffice shows every contact of an Excel file as it is stored (needs LibreOffice)',
  async () => {
    const app = await startApp();
    const customer = await app.customer();
    const folder = await mkdtemp(join(tmpdir(), 'libreoffice-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const items = Array.from({ length: 48 }, (_, i) => contactOf(i));
    expect((await customer.post('/contacts/batch/create', { items })).body).toMatchObject({ success: true });
    const { rawPayload } = await app.fastify.inject({
      method: 'POST',
      url: '/api/ext/contacts/export',
      headers: { authorization: `X-API-Key ${customer.key}` },
      payload: { format: 'xlsx' },
    });
    await writeFile(join(folder, 'contacts.xlsx'), rawPayload);
    // UTF-8, commas, every text quoted, the cells as they are shown.
    const options = 'csv:Text - txt - csv (StarCalc):44,34,76,1,,0,true,true,false';
    const profile = `-env:UserInstallation=file://${folder}/profile`;
    const words = [profile, '--headless', '--convert-to', options, '--outdir', folder, join(folder, 'contacts.xlsx')];
    await promisify(execFile)('soffice', words, { timeout: 100_000 });
    const [headers, ...rows] = parse(await readFile(join(folder, 'contacts.csv')));
    const sheet = await readSheet(rawPayload);
    expect(headers).toEqual(sheet.headers);
    expect(rows).toEqual(
      sheet.records.map((record) => sheet.headers.map((header) => shownInLibreOffice(record[header]))),
    );
    const stored = new Map(items.map((item) => [item.work_email, item]));
    const shown = rows.map((row) => Object.fromEntries(headers!.map((header, i) => [header, row[i]!])));
    expect(shown.length).toBe(stored.size);
    for (const row of shown) {
      const contact = stored.get(row['Work e-mail']!)!;
      expect(row).toMatchObject({
        'First name': contact.first_name,
        'Last name': contact.last_name,
        Company: contact.company.name,
        'Job title': contact.job_title,
        'Phone numbers': '+49 0151 2345',
        note: contact.custom_fields.note,
        code: contact.custom_fields.code,
        seats: String(contact.custom_fields.seats),
        trial: contact.custom_fields.trial ? 'TRUE' : 'FALSE',
      });
    }
  },
  150_000,
);

const notes = ['=SUM(A1:A3)', '+1', '-1', '@x', ' a ', 'a\nb', '"', '<b>&amp;', '_x0041_', "'quoted", '\ttab', '😀 œ'];

const people = [
  ['Hans-Jürgen', 'von Bülow', 'Maschinenbau "Nord" GmbH', 'Leiter Einkauf, DACH'],
  ['Zoé', 'Müller-Lüdenscheidt', 'Fa. Schulze; Inh. K. Schulze', '+1 Guy'],
  ['Bjørn', 'Null', '- keine -', ''],
] as const;

function contactOf(n: number) {
  const [first_name, last_name, name, job_title] = people[n % people.length]!;
  const code = String(n).padStart(6, '0');
  return {
    first_name,
    last_name,
    work_email: `${code}@firm.example`,
    job_title,
    company: { name },
    phone_numbers: [{ country_code: '+49', number: '0151 2345' }],
    custom_fields: { note: notes[n % notes.length]!, code, seats: n / 4, trial: n % 2 === 0 },
  };
}

/** Returns the text that LibreOffice shows for a value. */
function shownInLibreOffice(value: string | number | boolean | Date | undefined): string {
  if (value === undefined) return '';
  if (value instanceof Date) return value.toISOString().slice(0, 19).replace('T', ' ');
  return typeof value === 'boolean' ? String(value).toUpperCase() : String(value);
}
