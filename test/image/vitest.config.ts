import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/image/*.test.ts'],
    globalSetup: './test/image/compose.ts',
    testTimeout: 120_000,
    reporters: ['default', './test/setup/reporter.ts'],
  },
});
