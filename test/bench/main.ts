import { benchCatalog } from './catalog.ts';
import { benchContacts } from './contacts.ts';
import { benchJobs } from './jobs.ts';
import { benchLists } from './lists.ts';

// `make bench` runs every suite; `make bench ONLY=contacts` one. Figures are ratios taken in one run: only those travel.
const suites: Record<string, () => Promise<void>> = {
  contacts: () => benchContacts([10_000, 1_000_000], 5, 2),
  lists: () => benchLists(1_000_000, 5),
  jobs: () => benchJobs(5),
  catalog: () => benchCatalog('elasticsearch', 2_000_000, 5),
  'catalog-postgres': () => benchCatalog('postgres', 200_000, 5),
};

const only = process.env['ONLY'];
for (const [name, run] of Object.entries(suites)) {
  if (only && only !== name) continue;
  process.stdout.write(`\n${name}\n`);
  await run();
}
