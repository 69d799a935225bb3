import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/image/**'], // make test-image
    globalSetup: ['test/setup/servers.ts', 'test/setup/search-servers.ts'],
    setupFiles: ['test/setup/captured-logs.ts'],
    reporters: ['default', './test/setup/reporter.ts'],
    pool: 'forks',
    maxWorkers: 3,
    testTimeout: 120_000,
    hookTimeout: 180_000,
  },
});
