import postgres from 'postgres';
import { buildApp } from '../src/app.ts';
import { openCatalog } from '../src/catalog/open.ts';
import { parseConfig } from '../src/process/config.ts';
import { openDatabase } from '../src/database/db.ts';
import { migrate } from '../src/database/migrate.ts';
import { openThrowawayPostgres } from '../test/setup/throwaway-postgres.ts';
import type { GivenFilters } from '../src/schemas/filters.ts';
import type { RuleGiven } from '../src/schemas/lists.ts';
import { makeCustomer } from '../test/setup/factories.ts';
import { alternate, load, startServer } from './run.ts';

const listsInAll = 25;
export const listsWithRules = 13;

/** Thirteen lists of rules as people make them, of very unequal size. */
export const ruleset = (i: number): RuleGiven[] =>
  (
    [
      [
        { field: 'job_title', operator: 'contains', value: 'engineer' },
        { field: 'location_country', operator: 'in', value: 'DE, FR' },
      ],
      [
        { field: 'industry', operator: 'equals', value: 'Retail' },
        { field: 'score', operator: 'greater_than', value: '70' },
      ],
      [{ field: 'work_email', operator: 'ends_with', value: `company${i}.example` }],
      [
        { field: 'company.industry', operator: 'equals', value: 'Mining' },
        { field: 'last_name', operator: 'starts_with', value: `last${i}`, logic_operator: 'OR' },
      ],
    ] satisfies RuleGiven[][]
  )[i % 4]!;

/** Three of these lists, and what the same rules are as filters. */
const compared: [list: number, filters: GivenFilters][] = [
  [0, { job_title: { contains: 'engineer' }, location_country: ['DE', 'FR'] }],
  [2, { work_email: { ends_with: 'company2.example' } }],
  [3, { _or: [{ 'company.industry': 'Mining' }, { last_name: { starts_with: 'last3' } }] }],
];

const titles = ['Engineer', 'Senior Engineer', 'Clerk', 'Baker', 'Head of Sales'];
const countries = ['DE', 'FR', 'US', 'JP', 'GB', 'IT'];
const industries = ['Retail', 'Mining', 'Food', 'IT'];

/** One of the contacts that are loaded. Half of them are of one company. */
const person = (i: number) => ({
  first_name: `First${i % 997}`,
  last_name: `Last${i % 2_003}`,
  work_email: `p${i}@company${i % 1_009}.example`,
  job_title: titles[i % 5],
  industry: industries[i % 4],
  location_country: countries[i % 6],
  phone_numbers: [],
  company: i % 2 === 0 ? { name: 'Large' } : { name: `Company ${i % 401}`, industry: industries[i % 3] },
});

const batchSize = 1_000;

/** What is read of an answer. */
interface Read {
  id: string;
  data: { results: { id: string }[] };
  pagination: { total_records: number };
}

/**
 * Lists of a customer whose records are loaded through the service: 25 lists, 13 of them with rules.
 * @param contacts how many contacts the customer has
 */
export async function benchLists(contacts: number, rounds: number): Promise<void> {
  const server = await openThrowawayPostgres();
  await migrate(server.ownerUrl);
  const config = parseConfig({ LOG_LEVEL: 'silent' });
  const db = openDatabase(config, server.serviceUrl);
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const [customer, plain] = [await makeCustomer(app), await makeCustomer(app)];
  const service = await startServer(['src/cli.ts', 'serve', '--json'], {
    DATABASE_URL: server.serviceUrl,
    PORT: '0',
    LOG_LEVEL: 'warn',
    OVERLOAD_MS: '0',
    RATE_LIMITS: 'off',
  });
  const send = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`${service.url}/api/ext${path}`, {
      method,
      headers: { authorization: `X-API-Key ${customer.key}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const read = (await answer.json()) as Read;
    if (!answer.ok) throw new Error(`${method} ${path} was answered with ${answer.status}: ${JSON.stringify(read)}`);
    return read;
  };
  const timed = async (...call: Parameters<typeof send>): Promise<number> => {
    const begun = performance.now();
    await send(...call);
    return performance.now() - begun;
  };

  const ids: string[] = [];
  for (let i = 0; i < contacts; i += batchSize) {
    const items = Array.from({ length: Math.min(batchSize, contacts - i) }, (_, n) => person(i + n));
    const { data } = await send('POST', '/contacts/batch/create', { items });
    ids.push(...data.results.map(({ id }) => id));
  }
  const lists: string[] = [];
  for (let i = 0; i < listsInAll; i += 1)
    lists.push(
      (await send('POST', '/list-contact', { name: `List ${i}`, rules: i < listsWithRules ? ruleset(i) : [] })).id,
    );
  for (const [i, list] of lists.slice(listsWithRules).entries())
    await send('POST', '/list-contact-details/add-contacts', {
      list_id: list,
      contact_ids: ids.filter((_, n) => n % (i + 2) === 0).slice(0, 1_000),
    });
  const owner = postgres(server.ownerUrl, { max: 1, onnotice: () => {} });
  await owner`vacuum analyze`;

  print(`${contacts} contacts, ${listsInAll} lists, ${listsWithRules} with rules`);
  for (const [list, filters] of compared) {
    const paths = { list: lists[list]!, filters };
    const page = (given: object) => timed('POST', '/contacts/list', { filters: given });
    const count = (given: object) => timed('POST', '/contacts/metadata', { filters: given });
    const times = await alternate(rounds * 10, {
      page: () => page({ list_id: paths.list }),
      pageByFilters: () => page(filters),
      count: () => count({ list_id: paths.list }),
      countByFilters: () => count(filters),
    });
    const [{ pagination }] = [await send('POST', '/contacts/metadata', { filters })];
    print(`list ${list} of ${pagination.total_records}: a page`, times.page, times.pageByFilters, 'ms');
    print('  ratio to the same filters (≤ 1.1)', times.page / times.pageByFilters);
    print('  its number', times.count, times.countByFilters, 'ms');
  }
  print('list of lists, first', await timed('POST', '/list-contact/list', {}), 'ms');
  await timed('POST', '/list-contact/list', {});
  const kept = await alternate(rounds * 10, { lists: () => timed('POST', '/list-contact/list', {}) });
  print('list of lists, again (≤ 50 where counts are kept)', kept.lists, 'ms');

  const contactBody = { ...person(1), company: undefined };
  const creates = (key: string) => async () =>
    (
      await load(`${service.url}/api/ext`, [{ method: 'POST', path: '/contacts', body: contactBody }], 10, 2, {
        authorization: `X-API-Key ${key}`,
      })
    ).rate;
  const rates = await alternate(rounds, { plain: creates(plain.key), listed: creates(customer.key) });
  print('creates/s, without and with these lists', rates.plain, rates.listed);

  const [large] = (await send('POST', '/company/list', { filters: { company_name: 'Large' } })) as unknown as [
    { id: string },
  ];
  const swap = (i: number) => ({ rules: ruleset(i) });
  print('change of rules (≤ 50)', await timed('PATCH', `/list-contact/${lists[1]!}`, swap(0)), 'ms');
  print(
    `rename of a company of ${contacts / 2} (≤ 50)`,
    await timed('PATCH', `/company/${large.id}`, { company_name: 'Vast' }),
    'ms',
  );
  print(`deletion of this company (≤ 50)`, await timed('DELETE', `/company/${large.id}`), 'ms');
  print('deletion of a list', await timed('DELETE', `/list-contact/${lists.at(-1)!}`), 'ms');

  await service.stop();
  await owner.end({ timeout: 1 });
  await app.close();
  await db.close();
  await server.close();
}

function print(what: string, ...figures: (string | number)[]): void {
  const shown = figures.map((figure) =>
    typeof figure === 'number' ? (figure < 100 ? figure.toFixed(2) : Math.round(figure)) : figure,
  );
  process.stdout.write(`  ${what.padEnd(52)}${shown.join('  ')}\n`);
}
