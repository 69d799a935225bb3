import { describe, expect, test } from 'vitest';
import { sendBytes, workAtAll } from '../jobs/importing.ts';
import { startApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { messyFiles } from './files.ts';
import { nastierFiles } from './nastier-files.ts';
import type { Person } from './writing.ts';

const app = await startApp();

type Failure = { line: number; error?: string; warning?: string; record: Record<string, string> };

async function failuresOf(customer: TestCustomer, id: string): Promise<Failure[]> {
  const all: Failure[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await customer.get(
      `/imports/${id}/failures?limit=100${cursor === undefined ? '' : `&cursor=${cursor}`}`,
    );
    expect(page.status).toBe(200);
    all.push(...page.body);
    cursor = page.headers['x-next-cursor'] as string | undefined;
    if (cursor === undefined) return all;
  }
}

interface Stored extends Record<string, string | object[]> {
  work_email: string;
  phone_numbers: { country_code: string; number: string }[];
}

const storedContacts = ({ id }: TestCustomer) => app.owner<Stored[]>`
  select c.first_name, c.last_name, c.work_email, c.job_title, c.location_locality, c.location_postal_code, c.location_country,
    c.mobile_phone, c.phone_numbers, o.company_name
  from contacts c
  left join companies o on o.customer_id = c.customer_id and o.id = c.company_id
  where c.customer_id = ${id}`;

/** Fields of the file by what a person calls them. */
const fieldOf: Record<keyof Person, string> = {
  firstName: 'first_name',
  lastName: 'last_name',
  company: 'company_name',
  title: 'job_title',
  city: 'location_locality',
  postalCode: 'location_postal_code',
  country: 'location_country',
  mobile: 'mobile_phone',
  phone: 'phone_numbers',
};

function shown(row: Stored, name: keyof Person): string {
  const [phone] = row.phone_numbers;
  if (name === 'phone') return phone ? `${phone.country_code}${phone.number}` : '';
  return (row[fieldOf[name]] as string | null) ?? '';
}

/** A phone number whose country nobody knows is kept as it is written. */
const isAsWritten = (name: keyof Person, found: string, value = ''): boolean =>
  (name === 'mobile' || name === 'phone') &&
  !found.startsWith('+') &&
  digitsOf(found)
    .replace(/^00/, '')
    .replace(/^(49)0/, '$1') === digitsOf(value);

const digitsOf = (text: string): string => text.replaceAll(/\D/g, '');

describe('a messy file is imported by guessing alone', () => {
  test.each([...messyFiles, ...nastierFiles])('%s', async (_name, makeFile) => {
    const file = makeFile();
    const customer = await app.customer();
    const id = await sendBytes(app, customer, { object: 'contacts', mode: 'create', guess: true }, file.bytes);
    await workAtAll(app, customer);
    const done = (await customer.get(`/imports/${id}`)).body;
    expect(done).toMatchObject({ status: 'COMPLETED', error: null });
    const failures = await failuresOf(customer, id);
    const written = done.created / (done.total - file.hopeless);
    expect(written, JSON.stringify([done, failures.filter(({ error }) => error).slice(0, 5)])).toBeGreaterThanOrEqual(
      0.98,
    );
    expect(failures.filter(({ line }) => line !== 1)).toHaveLength(done.failed + done.warnings);

    const rows = new Map((await storedContacts(customer)).map((row) => [row.work_email.toLowerCase(), row]));
    const warnings = failures.filter(({ warning, line }) => warning !== undefined && line > 1);
    const wrong: unknown[] = [];
    for (const [address, person] of file.people) {
      const row = rows.get(address);
      if (!row) {
        wrong.push([address, 'is missing']);
        continue;
      }
      const warned = warnings.find(({ record }) =>
        Object.values(record).some((cell) => cell.toLowerCase().includes(address)),
      )?.warning;
      for (const [name, value] of Object.entries(person) as [keyof Person, string | undefined][]) {
        const found = shown(row, name);
        const isNamed = warned?.includes(`${fieldOf[name]}: `) === true || isAsWritten(name, found, value);
        if (value === undefined ? name === 'country' && found !== '' : found !== value && !isNamed)
          wrong.push([address, name, value, found]);
      }
    }
    expect(wrong.slice(0, 20)).toEqual([]);
  });
});
