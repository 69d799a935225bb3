// Uses every part of the client once. The project's test compiles and runs this program against the real service.
import { ImportFailedError, ResponseError, SalesData } from 'sales-data-client';

const [baseUrl, lyingUrl, key, readKey, limitedKey] = process.argv.slice(2) as [string, string, string, string, string];
const api = new SalesData({ baseUrl, key });

/** Returns the error of a call, with its class and what tests compare. */
const failure = async (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'no error',
    (error: Error) => ({
      class: error.constructor.name,
      ...(error instanceof ResponseError
        ? { status: error.status, code: error.code, paths: error.errors.map(({ path }) => path) }
        : {}),
    }),
  );

const ada = { first_name: 'Ada', last_name: 'Lovelace', phone_numbers: [] };

// Retries: a 503, then a connection that ends after the service has written.
const lied = new SalesData({ baseUrl: lyingUrl, key });
const created = await lied.createContact({ body: { ...ada, work_email: 'lied@example.com' } });

// Batches of any length, with a faulty item.
const people = Array.from({ length: 2_500 }, (_, i) => ({
  ...ada,
  external_id: `crm-${i}`,
  work_email: i === 1_700 ? 'no address' : `ada${i}@example.com`,
}));
const results = await api.batch('upsertContactBatch', people, { match: 'external_id' });

// All pages.
const emails = new Set<string | null>();
for await (const { work_email } of api.each('listContacts', { body: { filters: { first_name: 'ada' } } }))
  emails.add(work_email);
const lists: string[] = [];
for (const name of ['One', 'Two', 'Three']) await api.createContactList({ body: { name } });
for await (const { name } of api.each('listContactLists', { body: { limit: 2 } })) lists.push(name);

// A change against a version.
const id = created.data.id;
const { etag } = await api.request('getContact', { id });
await api.updateContact({ id, body: { job_title: 'Countess' } }, { ifMatch: etag! });

// The one read whose answer for an unknown id is null.
const nobody = await api.getCompany({ id: crypto.randomUUID() });

// Jobs and imports.
const verification = await api.verifyEmails({ body: { emails: [{ email: 'ada@invalid' }, { email: 'x' }] } });
if (!('id' in verification)) throw new Error('only a dry run returns an estimate');
const jobId = verification.id;
const states: string[] = [];
const job = await api.waitForJob(jobId, { timeoutMs: 60_000, onProgress: ({ status }) => states.push(status) });
const companies = await api.importCompanies(new Blob(['type,company_name\ncustomer,Acme\n,Nobody\npartner,\n']), {
  mode: 'create',
  format: 'csv',
  timeoutMs: 60_000,
});
const exported = await new Response(
  await api.exportContacts({ body: { format: 'ndjson', fields: ['work_email'] } }),
).text();

const refusedLines: number[] = [];
for await (const { line } of companies.failures()) refusedLines.push(line);
const unreadable = await api.importContacts('nonsense\n1\n', { mode: 'create', format: 'csv', timeoutMs: 60_000 }).then(
  () => undefined,
  (error: unknown) => (error instanceof ImportFailedError ? error : undefined),
);

const silent = new SalesData({ baseUrl: lyingUrl, key, timeoutMs: 1, maxRetries: 0 });
const refused = new SalesData({ baseUrl: 'http://127.0.0.1:1', key, maxRetries: 1 });
const errors = [
  await failure(api.createContact({ body: { ...ada, work_email: 'x' } })),
  await failure(new SalesData({ baseUrl, key: 'sda_wrong' }).listContacts()),
  await failure(
    new SalesData({ baseUrl, key: readKey }).createContact({ body: { ...ada, work_email: 'ada@example.com' } }),
  ),
  await failure(api.createContact({ body: { ...ada, work_email: 'b@example.com', external_id: 'crm-1' } })),
  await failure(
    new SalesData({ baseUrl, key: limitedKey }).importContacts('first_name,last_name\nA,A\nB,B\nC,C\n', {
      mode: 'create',
    }),
  ),
  await failure(silent.listContacts()),
  await failure(refused.listContacts()),
];
process.stdout.write(
  JSON.stringify({
    created: created.data.id,
    batch: {
      length: results.length,
      failed: results.flatMap(({ index, status }) => (status === 'failed' ? [index] : [])),
    },
    emails: emails.size,
    nobody,
    lists,
    job: { status: job.status, processed: job.processed, last: states.at(-1) },
    companies: [companies.created, refusedLines],
    unreadable: unreadable?.import.status,
    exported: exported.trim().split('\n').length,
    errors,
  }),
);
