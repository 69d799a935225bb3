import { expect, test } from 'vitest';
import { readReadme } from './setup/readme.ts';

test("the README's configuration table matches the configuration (else run `npm run contract`)", async () => {
  const { is, shouldBe } = await readReadme();
  expect(is).toBe(shouldBe);
});
