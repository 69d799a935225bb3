import { expect, test } from 'vitest';
import { readTable } from './setup/configuration-table.ts';

test('docs/configuration.md matches the configuration (else run `npm run contract`)', async () => {
  const { is, shouldBe } = await readTable();
  expect(is).toBe(shouldBe);
});
