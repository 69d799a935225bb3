import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'csv-parse/sync';
import { expect, onTestFinished, test } from 'vitest';
import { startApp } from '../setup/app.ts';

const app = await startApp();

const hasLibreOffice = spawnSync('soffice', ['--version']).status === 0;

/** Notes that a spreadsheet program could compute, trim or take for markup. */
const notes = ['=SUM(A1:A3)', '+1', '@x', ' a ', 'a\nb', '"', '<b>&amp;', '_x0041_', "'quoted", '\ttab', '😀 œ'];

test.runIf(hasLibreOffice)(
  'LibreOffice shows every contact of an Excel file as it is stored (needs LibreOffice)',
  async () => {
    const customer = await app.customer();
    const items = notes.map((note, i) => ({
      first_name: 'Hans-Jürgen',
      last_name: 'Müller-Lüdenscheidt',
      company: { name: 'Maschinenbau "Nord"; Inh. K. Schulze' },
      phone_numbers: [{ country_code: '+49', number: '0151 2345' }],
      custom_fields: { note, code: `00${10 + i}`, seats: i / 4, trial: i % 2 === 0 },
    }));
    expect((await customer.post('/contacts/batch/create', { items })).body).toMatchObject({ success: true });
    const { body } = await customer.post('/contacts/export', { format: 'xlsx' });
    const folder = await mkdtemp(join(tmpdir(), 'libreoffice-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    await writeFile(join(folder, 'contacts.xlsx'), body);
    // UTF-8, commas, every text quoted, the cells as they are shown.
    const options = 'csv:Text - txt - csv (StarCalc):44,34,76,1,,0,true,true,false';
    const profile = `-env:UserInstallation=file://${folder}/profile`;
    const words = [profile, '--headless', '--convert-to', options, '--outdir', folder, join(folder, 'contacts.xlsx')];
    await promisify(execFile)('soffice', words, { timeout: 100_000 });
    const rows: Record<string, string>[] = parse(await readFile(join(folder, 'contacts.csv')), { columns: true });
    expect(rows).toHaveLength(items.length);
    for (const { first_name, last_name, company, custom_fields } of items)
      expect(rows).toContainEqual(
        expect.objectContaining({
          'First name': first_name,
          'Last name': last_name,
          Company: company.name,
          'Phone numbers': '+49 0151 2345',
          note: custom_fields.note,
          code: custom_fields.code,
          seats: String(custom_fields.seats),
          trial: custom_fields.trial ? 'TRUE' : 'FALSE',
        }),
      );
  },
  150_000,
);
