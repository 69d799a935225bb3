import { describe, expect, test } from 'vitest';
import { hashPassword, verifyPassword } from '../../src/accounts/users.ts';
import { noPassword } from '../../src/access/credentials.ts';

describe('a password', () => {
  test('is stored as argon2id with at least 19 MiB, two passes and one lane, salted', async () => {
    const [one, two] = await Promise.all([
      hashPassword('correct horse battery'),
      hashPassword('correct horse battery'),
    ]);
    expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(one).not.toBe(two);
  });

  test('is the same however its letters are composed', async () => {
    expect(await verifyPassword(await hashPassword('pässwörter sind'), 'pa\u0308sswo\u0308rter sind')).toBe(true);
  });

  test('of more than 72 bytes is compared completely', async () => {
    const long = 'x'.repeat(127);
    expect(await verifyPassword(await hashPassword(`${long}a`), `${long}b`)).toBe(false);
  });
});

describe('without an account', () => {
  test('verification does the same work: it compares with a hash that has the parameters of new ones', async () => {
    const parametersOf = (hash: string) => hash.split('$').slice(0, 4);
    const lengthsOf = (hash: string) => hash.split('$').map((part) => part.length);
    const real = await hashPassword('correct horse battery');
    expect(parametersOf(noPassword)).toEqual(parametersOf(real));
    expect(lengthsOf(noPassword)).toEqual(lengthsOf(real));
  });
});

test('in a storm of logins, attempts that cannot wait fail at once as unavailable, not as wrong', async () => {
  const hash = await hashPassword('correct horse battery');
  const refusals: unknown[] = [];
  const storm = Array.from({ length: 200 }, () =>
    verifyPassword(hash, 'wrong').catch((error: unknown) => refusals.push(error)),
  );
  await new Promise((resolve) => setImmediate(resolve));
  expect(refusals.length).toBeGreaterThanOrEqual(200 - 100 - 3);
  expect(new Set(refusals.map((error) => (error as { code: string }).code))).toEqual(new Set(['unavailable']));
  await Promise.all(storm);
});
