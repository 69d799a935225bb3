import { expect } from 'vitest';
import { openErrorsFile } from '../../src/jobs/errors-file.ts';
import { importRecords } from '../../src/jobs/import-records.ts';
import { allImports } from '../../src/queries/jobs/imports.ts';
import { hasDueRun } from '../../src/queries/jobs/runs.ts';
import type { JobContext } from '../../src/jobs/turns.ts';
import type { Import } from '../../src/schemas/imports.ts';
import type { TestApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { contextOf } from './working.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of responses

/** The settings of an import of new contacts from a CSV file. A value that cannot be read fails its record. */
export const newContacts = { object: 'contacts', mode: 'create', format: 'csv', invalid_values: 'fail' } as const;

/** Begins an import. Returns its id. */
export async function beginImport(customer: TestCustomer, settings: object = newContacts): Promise<string> {
  const answer = await customer.post('/imports', settings);
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return answer.body.data.id;
}

/** Sends the file of an import. */
export const sendFile = (customer: TestCustomer, id: string, file: string | Buffer) =>
  customer.call('PUT', `/imports/${id}/file`, file, { 'content-type': 'text/csv' });

/** Begins an import and sends its file. Returns its id. */
export async function sendBytes(customer: TestCustomer, settings: object, file: Buffer): Promise<string> {
  const id = await beginImport(customer, settings);
  const sent = await sendFile(customer, id, file);
  expect(sent.status, JSON.stringify(sent.body)).toBe(200);
  return id;
}

/** Runs batches of a customer's imports in this process until none waits. */
export async function workAtAll(
  app: TestApp,
  { id }: Pick<TestCustomer, 'id'>,
  { seconds = 60, ...context }: { seconds?: number } & Partial<JobContext> = {},
): Promise<void> {
  const work = importRecords(seconds);
  const db = app.db.for({ customerId: id }, 'import');
  while (await app.db.transaction((sql) => hasDueRun(sql, id, 'import')))
    await work({ ...contextOf(app), db, ...context }, { customerId: id });
}

/** Imports a file in this process. Returns the import as it is at the end. */
export async function importFile(
  app: TestApp,
  customer: TestCustomer,
  settings: object,
  text: string,
  seconds = 60,
): Promise<Import> {
  const id = await sendBytes(customer, settings, Buffer.from(text));
  await workAtAll(app, customer, { seconds });
  return (await customer.get(`/imports/${id}`)).body;
}

/** Returns the numbers of an import. */
export const countsOf = ({ total, processed, created, updated, unchanged, failed }: Import) => ({
  total,
  processed,
  created,
  updated,
  unchanged,
  failed,
});

/** Returns the lines of an import's errors file, without the header line and without empty warnings. */
export async function errorsOf(customer: TestCustomer, id: string): Promise<string[]> {
  const answer = await customer.get(`/imports/${id}/errors`);
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return String(answer.body)
    .split('\r\n')
    .slice(1)
    .filter((line) => line !== '')
    .map((line) => line.replace(/,$/, ''));
}

/** Opens the errors file of an import. Returns its content type, and a function that reads its pieces. */
export async function openErrors(app: TestApp, customer: TestCustomer, id: string) {
  const { type, read } = await openErrorsFile(app.db, { customerId: customer.id }, { id, visible: allImports });
  const readAll = async (): Promise<Buffer[]> => {
    const pieces: Buffer[] = [];
    for await (const piece of await read()) pieces.push(piece);
    return pieces;
  };
  return { type, readAll };
}

export interface Failure {
  line: number;
  error?: string;
  warning?: string;
  record: Record<string, string>;
}

/** Reads the failed records of an import. Returns those of each page. */
export async function failurePages(customer: TestCustomer, id: string, limit: number): Promise<Failure[][]> {
  const pages: Failure[][] = [];
  for (let cursor: string | undefined; ;) {
    const query = cursor === undefined ? '' : `&cursor=${cursor}`;
    const page = await customer.get(`/imports/${id}/failures?limit=${limit}${query}`);
    expect(page.status, JSON.stringify(page.body)).toBe(200);
    pages.push(page.body);
    cursor = page.headers['x-next-cursor'] as string | undefined;
    if (cursor === undefined) return pages;
  }
}

/** Returns all contacts of a customer, oldest first, with these fields. */
export async function contactsOf(caller: TestCustomer, ...fields: string[]): Promise<Json[]> {
  const { body } = await caller.post('/contacts/export', { format: 'ndjson', fields });
  return String(body)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
    .toReversed();
}

/** Returns a CSV file of contacts with these lines. */
export const contactsCsv = (...lines: string[]): string =>
  ['first_name,last_name,work_email,phone_numbers', ...lines].join('\n');

/** Returns lines of contacts that differ in their number. */
export const contactLines = (count: number, first = 0): string[] =>
  Array.from({ length: count }, (_, i) => `Ada,No ${first + i},ada${first + i}@example.com,`);
