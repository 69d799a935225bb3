import { afterAll, vi } from 'vitest';
import { closeAll } from './at-end.ts';
import { failOnLeaks } from './captured-logs.ts';

// Vitest runs this module once for each test file, before it, and loads the other setup modules once for each process.

afterAll(async () => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  await closeAll().finally(failOnLeaks);
});
