import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { failurePages, sendBytes, workAtAll, type Failure } from '../jobs/importing.ts';
import { startApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';

const app = await startApp();

const failuresOf = async (customer: TestCustomer, id: string): Promise<Failure[]> =>
  (await failurePages(customer, id, 100)).flat();

/** What becomes of a small file that somebody has reported, in `test/messy/inputs`. */
interface Reported {
  file: string;
  settings?: object;
  /** Of the records, in their order. */
  stored: object[];
  /** Of the import; by default all is written without a warning. */
  counts?: object;
  /** Parts of what `failures` say, in their order. */
  said?: (string | RegExp)[];
}

const phone = (country_code: string, number: string) => ({ country_code, number });
const person = (first_name: string, last_name: string, work_email?: string) => ({
  first_name,
  last_name,
  ...(work_email === undefined ? {} : { work_email }),
});
const noYear = 'is not a year (such as 1985) or a date with a year';

const reported: Reported[] = [
  {
    file: 'headerless-addresses.csv',
    settings: { header: false },
    stored: ['ada.north', 'ben.south', 'cat.east', 'dan.west'].map((name) => ({ work_email: `${name}@firm.example` })),
  },
  {
    file: 'salesforce-accounts-report.csv',
    settings: { object: 'companies' },
    stored: [{ company_name: 'Moorhen GmbH' }, { company_name: 'Marsh Ltd' }],
    said: ['footer', 'footer', 'footer', 'footer', 'footer'],
  },
  { file: 'shared-strings-other-case.xlsx', stored: [person('Xena', 'Xu')] },
  { file: 'sheet-other-case.xlsx', stored: [person('Xaver', 'Xu')] },
  { file: 'first-sheet-hidden.xlsx', stored: [person('Hal', 'Hill')] },
  {
    file: 'invisible-marks.csv',
    stored: [
      {
        ...person('Fay', 'Fox', 'fay.fox@firm.example'),
        phone_numbers: [phone('+1', '2025550123')],
        mobile_phone: '+12025550124',
      },
      { ...person('Fin', 'Fox', 'fin.fox@firm.example'), phone_numbers: [phone('+1', '2025550125')] },
      { ...person('Flo', 'Fox'), phone_numbers: [phone('+1', '2025550126')] },
    ],
  },
  {
    file: 'credentials.csv',
    stored: [...Array<object>(6).fill(person('Ann', 'Lee')), person('Ann', 'Lee')],
    said: ['titles and degrees are left out of full names: PMP, CPA, RN, BSN, MBA, M.Sc.'],
  },
  {
    file: 'german-titles.csv',
    stored: ['Max', 'Max', 'Anna', 'Hans', 'Max', 'Anna'].map((name) => person(name, 'Muster')),
    said: ['Dipl.-Ing., (FH), Univ.-Prof., Mag., Prof., Dr., h.c., mult., Hr., med.'],
  },
  {
    file: 'birthdays.csv',
    stored: [null, null, null, null, null, 1985, null, null, 1985].map((birth_year) => ({ birth_year })),
    counts: { warnings: 7 },
    said: Array<string>(7).fill(noYear),
  },
  {
    file: 'commas-in-header.csv',
    stored: [
      { ...person('Cara', 'Kunz', 'cara.kunz@firm.example'), company_name: 'Kunz AG' },
      { ...person('Carl', 'Kern', 'carl.kern@firm.example'), company_name: 'Kern AG' },
    ],
  },
  {
    file: 'equals-quoted.csv',
    stored: [
      {
        ...person('Eva', 'Eck', 'eva.eck@firm.example'),
        location_postal_code: '01067',
        phone_numbers: [phone('+49', '3090182010')],
      },
    ],
    said: ['"Member No" is left out'],
  },
  {
    file: 'formulas-without-values.xlsx',
    stored: [person('', 'Xu')],
    counts: { warnings: 1 },
    said: [/first_name: the cell A2 has a formula without a stored value.*; job_title: the cell D2 has a formula/],
  },
  {
    file: 'error-cells.xlsx',
    stored: [{ ...person('', 'Xu'), job_title: '' }],
    counts: { warnings: 1 },
    said: ['first_name: the cell A2 has the error "#N/A"; job_title: the cell D2 has the error "#NAME?"'],
  },
  { file: 'more-cells-than-header.csv', stored: [person('Gil', 'Gray'), person('Gus', 'Gray')] },
  {
    file: 'linkedin-two-connections.csv',
    stored: [
      { ...person('Lia', 'Lund'), profnet_url: 'https://www.linkedin.com/in/lia-lund-0' },
      { ...person('Leo', 'Lund'), profnet_url: 'https://www.linkedin.com/in/leo-lund-0' },
    ],
    said: ['"Connected On" is left out'],
  },
  {
    file: 'idn-addresses.csv',
    stored: ['ida@müller.example', 'ida@xn--mller-kva.example', 'ida@ñandú.example'].map((work_email) => ({
      work_email,
    })),
  },
  {
    file: 'countries.csv',
    stored: 'GB IR BO TZ VE PS CD HK SK KG MD IE TL BS KR'.split(' ').map((location_country) => ({ location_country })),
  },
];

describe('a file that somebody has reported is read as people expect', () => {
  test.each(reported)('$file', async ({ file, settings, stored, counts = {}, said = [] }) => {
    const customer = await app.customer();
    const wanted = { object: 'contacts', mode: 'create', guess: true, ...settings };
    const id = await sendBytes(app, customer, wanted, await readFile(new URL(`inputs/${file}`, import.meta.url)));
    await workAtAll(app, customer);
    const done = (await customer.get(`/imports/${id}`)).body;
    const failures = await failuresOf(customer, id);
    expect(done, JSON.stringify(failures)).toMatchObject({
      status: 'COMPLETED',
      error: null,
      total: stored.length,
      created: stored.length,
      warnings: 0,
      ...counts,
    });
    const rows = await app.owner`
      select c.*, o.company_name from contacts c
      left join companies o on o.customer_id = c.customer_id and o.id = c.company_id
      where c.customer_id = ${customer.id}
      order by c.id`;
    const companies = await app.owner`select * from companies where customer_id = ${customer.id} order by id`;
    expect('object' in wanted && wanted.object === 'companies' ? companies : rows).toMatchObject(stored);
    expect(failures.map(({ warning }) => warning)).toEqual(said.map((text) => expect.stringMatching(pattern(text))));
  });
});

const pattern = (text: string | RegExp): RegExp =>
  typeof text === 'string' ? new RegExp(text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)) : text;
