import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import LongestFirst from './test/setup/longest-first.ts';
import { testAll } from './test/setup/suites.ts';

// Some 500 processes of the service are started: with what is compiled already kept, each takes half of the time. Set here,
// not with the option `env`, so that the processes of the tests themselves start with it, too.
process.env['NODE_COMPILE_CACHE'] ??= join(tmpdir(), 'node-compile-cache');

/**
 * Files that run one after the other in the same few processes, each of which loads the modules of `src` once. All others
 * have a process of their own: many freeze and kill servers and workers, whose connections and timers must not outlive the
 * file. Another folder may be added once its files pass here in any order.
 */
const shared = [
  'test/{accounts,commands,contract,credentials,filters,limits,network,pages,plugins,queries,routes,text,verification,webhooks}/**/*.test.ts',
  'test/{catalog/{import,postgres,rights},files/{layout,values,xlsx}}/**/*.test.ts',
  'test/jobs/**/*.test.ts',
];

const every = ['test/**/*.test.ts'];
const image = 'test/image/**'; // make test-image

const common = {
  setupFiles: ['test/setup/each-file.ts'],
  pool: 'forks' as const,
  maxWorkers: 3,
  testTimeout: 120_000,
  hookTimeout: 180_000,
  expect: { poll: { timeout: 30_000 } }, // the default of one second is too short for a busy machine
};

/** `--sequence.shuffle.files`: no order of the files may matter. */
const isShuffled = process.argv.some((word) => word.startsWith('--sequence.shuffle'));

export default defineConfig({
  test: {
    globalSetup: ['test/setup/servers.ts', 'test/setup/search-servers.ts'],
    reporters: ['default', './test/setup/reporter.ts'],
    sequence: isShuffled ? {} : { sequencer: LongestFirst },
    maxWorkers: common.maxWorkers,
    projects: [
      // `make test`
      { test: { ...common, name: 'shared', include: shared, exclude: [...testAll], isolate: false } },
      { test: { ...common, name: 'own', include: every, exclude: [...shared, ...testAll, image] } },
      // `make test-all`
      { test: { ...common, name: 'all', include: [...testAll] } },
    ],
  },
});
