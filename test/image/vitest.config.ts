import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/image/*.test.ts'],
    globalSetup: './test/image/compose.ts',
    // Each file starts ten containers, and .ci/run starts these tests beside `make test-all`.
    fileParallelism: false,
    testTimeout: 1_200_000,
    hookTimeout: 1_200_000,
    expect: { poll: { timeout: 400_000, interval: 500 } },
    reporters: ['default', './test/setup/reporter.ts'],
  },
});
