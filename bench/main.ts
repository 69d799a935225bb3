import { benchBulk } from './bulk.ts';
import { benchCatalog, benchPostgresCatalog } from './catalog.ts';
import { benchCitus } from './citus.ts';
import { benchContacts } from './contacts.ts';
import { benchCsv } from './csv.ts';
import { benchDependants } from './dependants.ts';
import { benchExports } from './exports.ts';
import { benchFair } from './fair.ts';
import { benchImports } from './imports.ts';
import { benchUnlock } from './jobs-unlock.ts';
import { benchJobs } from './jobs.ts';
import { benchJournal } from './journal.ts';
import { benchLists } from './lists.ts';
import { benchOverload } from './overload.ts';
import { benchQuestions } from './questions.ts';
import type { People } from './questions-file.ts';
import { benchSizing } from './sizing.ts';

// `make bench` runs every suite; `make bench ONLY=contacts` one, those of the catalog with BENCH_PROSPECTS people. Figures are ratios taken in one run: only those travel.
const size = process.env['BENCH_PROSPECTS'] === undefined ? undefined : Number(process.env['BENCH_PROSPECTS']);
/** Customers of which `questions` asks. */
const asked = (most: number): People[] => [
  { contacts: 10_000, companies: 20 },
  { contacts: 10_000, companies: 4_001 },
  { contacts: Math.min(most, 100_000), companies: 400 },
  { contacts: most, companies: 4_001 },
  { contacts: Math.min(most, 100_000), companies: 40_000 },
];

const suites: Record<string, () => Promise<void>> = {
  contacts: () => benchContacts([10_000, 1_000_000], 5, 2),
  lists: async () => {
    await benchLists(10_000, 5);
    await benchLists(Number(process.env['BENCH_CONTACTS'] ?? 1_000_000), 5);
  },
  fair: () => benchFair(800_000, 30),
  questions: () => benchQuestions(asked(Number(process.env['BENCH_CONTACTS'] ?? 1_000_000)), 3, 7),
  journal: () => benchJournal(Number(process.env['BENCH_CONTACTS'] ?? 1_000_000), 10, 3),
  overload: () => benchOverload(60),
  sizing: () => benchSizing(20),
  dependants: () => benchDependants(100_000, 200_000),
  csv: () => benchCsv(100_000, 3),
  exports: () => benchExports(100_000, 5),
  imports: () => benchImports(Number(process.env['BENCH_CONTACTS'] ?? 100_000), [0, 4_001, 40_000], 3),
  bulk: () => benchBulk(Number(process.env['BENCH_CONTACTS'] ?? 1_000_000), 5),
  citus: () => benchCitus(Number(process.env['BENCH_CONTACTS'] ?? 100_000), 5),
  jobs: () => benchJobs(5).then(() => benchUnlock(5)),
  catalog: () => benchCatalog(size ?? 2_000_000, 5),
  'catalog-postgres': () => benchPostgresCatalog(size === undefined ? [100_000, 200_000, 500_000] : [size], 5),
};

const only = process.env['ONLY'];
for (const [name, run] of Object.entries(suites)) {
  if (only && only !== name) continue;
  process.stdout.write(`\n${name}\n`);
  await run();
}
