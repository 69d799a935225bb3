import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import LongestFirst from './test/setup/longest-first.ts';
import { testAll } from './test/setup/suites.ts';

// Some 500 processes of the service are started: with what is compiled already kept, each takes half of the time. Set here,
// not with the option `env`, so that the processes of the tests themselves start with it, too.
process.env['NODE_COMPILE_CACHE'] ??= join(tmpdir(), 'node-compile-cache');

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
      // `make test`: files run one after the other in the same few processes, each of which loads the modules of `src` once.
      // They must pass in any order.
      {
        test: { ...common, name: 'test', include: ['test/**/*.test.ts'], exclude: [...testAll, image], isolate: false },
      },
      // `make test-all`: each file has a process of its own. Many freeze and kill servers and workers, whose connections and
      // timers must not outlive the file. They start many processes at once, so a slow machine needs longer.
      {
        test: {
          ...common,
          name: 'all',
          include: [...testAll],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          expect: { poll: { timeout: 100_000 } },
        },
      },
    ],
  },
});
