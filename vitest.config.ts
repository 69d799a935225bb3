import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/image/**'], // make test-image
    globalSetup: ['test/setup/servers.ts', 'test/setup/search-servers.ts'],
    setupFiles: ['test/setup/captured-logs.ts'],
    reporters: ['default', './test/setup/reporter.ts'],
    // Some 500 processes of the service are started: with what is compiled already kept, each takes half of the time.
    env: { NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache') },
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 120_000,
    hookTimeout: 180_000,
  },
});
