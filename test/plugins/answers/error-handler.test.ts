import { Type } from '@sinclair/typebox';
import { describe, expect, test } from 'vitest';
import { conflict, validationFailed } from '../../../src/errors.ts';
import { appWithoutDatabase } from '../../contract/declared.ts';
import { inject } from '../../setup/factories.ts';

const app = appWithoutDatabase();
let thrown: unknown;
void app.register(async (scope) => {
  const options = { config: { access: { public: true } as const }, schema: { response: { 200: Type.Null() } } };
  scope.get('/own', options, async () => {
    throw thrown;
  });
});

/** Calls a route that throws this error. */
async function answerTo(error: unknown) {
  thrown = error;
  return inject(app, 'GET', '/own');
}

/** A driver error, with columns, values and a statement that must stay secret. */
const fromPostgres = (code: string, more: object = {}): Error =>
  Object.assign(new Error('invalid input syntax for type uuid: "secret"'), {
    name: 'PostgresError',
    code,
    severity: 'ERROR',
    detail: 'Key (email)=(secret@example.com) already exists.',
    query: 'select secret from users',
    ...more,
  });

const failed = { statusCode: 500, error: 'Internal Server Error', code: 'internal_error', message: expect.any(String) };

test('an unexpected error is 500 and reveals nothing', async () => {
  const surprises = [
    new Error('secret'),
    new TypeError('secret.length'),
    'secret',
    { secret: 1 },
    null,
    undefined,
    fromPostgres('42P01'),
  ];
  const disguised = Object.assign(new Error('secret'), { statusCode: 418, status: 418, code: 'SECRET', expose: true });
  for (const surprise of [
    ...surprises,
    disguised,
    fromPostgres('23505'),
    fromPostgres('23505', { constraint_name: 'unnamed' }),
  ]) {
    const answer = await answerTo(surprise);
    expect(answer.status).toBe(500);
    expect(answer.body).toEqual(failed);
    expect(JSON.stringify(answer)).not.toContain('secret');
  }
});

test('a value that only PostgreSQL rejects is 400 with our own message', async () => {
  for (const code of ['22P02', '22003', '22021', '22008', '22P05']) {
    const answer = await answerTo(fromPostgres(code));
    expect(answer).toMatchObject({ status: 400, body: { code: 'validation_failed', errors: [{ path: '' }] } });
    expect(JSON.stringify(answer.body)).not.toMatch(/secret|uuid|syntax/);
  }
});

test('a constraint of a shard, which only the message names, says the same', async () => {
  const message =
    'insert or update on table "contacts_102073" violates foreign key constraint "contacts_assignee_fkey_102073"';
  const missing = Object.assign(new Error(message), { name: 'PostgresError', code: '23503' });
  expect(await answerTo(missing)).toMatchObject({ status: 404, body: { errors: [{ path: '/assigned_to' }] } });
});

describe('no error answer is larger than 64 KiB', () => {
  const limit = 64 * 1024;
  const faults = (count: number, path: string, message: string) =>
    Array.from({ length: count }, (_, i) => ({ path: `/${i}${path}`, message }));
  const sizeOf = async (error: unknown): Promise<number> => {
    thrown = error;
    return (await app.inject({ url: '/own' })).rawPayload.length;
  };

  test('a text is cut to 500 UTF-16 units, the last of them an ellipsis', async () => {
    const exact = 'x'.repeat(500);
    const { body } = await answerTo(
      validationFailed([
        { path: `${exact}x`, message: `${exact}x` },
        { path: exact, message: exact },
      ]),
    );
    expect(body.errors).toEqual([
      { path: `${'x'.repeat(499)}…`, message: `${'x'.repeat(499)}…` },
      { path: exact, message: exact },
    ]);
    const one = await answerTo(validationFailed([{ path: exact, message: exact }]));
    expect(one.body.message).toBe(`${'x'.repeat(499)}…`);
  });

  test('the list of faults ends before the limit, whatever its characters', async () => {
    for (const character of ['\u0001', '"', '€', '😀', 'x']) {
      const text = character.repeat(600);
      const size = await sizeOf(validationFailed(faults(101, text, text)));
      expect(size, JSON.stringify(character)).toBeLessThanOrEqual(limit);
      expect(size, JSON.stringify(character)).toBeGreaterThan(limit - 6_500);
    }
    expect(await sizeOf(conflict('\u0001'.repeat(1_000_000)))).toBeLessThan(4_000);
    const { body } = await answerTo(validationFailed(faults(80, '€'.repeat(500), '€'.repeat(500))));
    expect(body.message).toBe('80 values are not valid');
    expect(body.errors.length).toBeLessThan(30);
  });
});
