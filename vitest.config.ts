import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

// Some 500 processes of the service are started: with what is compiled already kept, each takes half of the time. Set here,
// not with the option `env`, so that the processes of the tests themselves start with it, too.
process.env['NODE_COMPILE_CACHE'] ??= join(tmpdir(), 'node-compile-cache');

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/image/**'], // make test-image
    globalSetup: ['test/setup/servers.ts', 'test/setup/search-servers.ts'],
    setupFiles: ['test/setup/each-file.ts'],
    reporters: ['default', './test/setup/reporter.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 120_000,
    hookTimeout: 180_000,
  },
});
