import { afterAll, beforeAll, expect, test } from 'vitest';
import { ContactPatch, ContactQuery } from '../../../src/schemas/contacts.ts';
import { ListCreate, MembersByHand } from '../../../src/schemas/lists.ts';
import { Declaration } from '../../../src/schemas/wire.ts';
import { appWithoutDatabase } from '../../contract/declared.ts';
import { inject } from '../../setup/factories.ts';

const bodies = { ContactPatch, ContactQuery, Declaration, ListCreate, MembersByHand };

const app = appWithoutDatabase();
void app.register(async (scope) => {
  for (const [name, body] of Object.entries(bodies))
    scope.post(
      `/${name}`,
      {
        bodyLimit: 5 * 2 ** 20,
        config: { access: { public: true } },
        schema: { body, response: { 204: { type: 'null' } } },
      },
      async (_request, reply) => reply.code(204).send(null),
    );
});
beforeAll(() => app.ready());
afterAll(() => app.close());

interface Fault {
  path: string;
  message: string;
}

const faultsOf = async (name: keyof typeof bodies, body: unknown): Promise<{ message: string; errors: Fault[] }> => {
  const answer = await inject(app, 'POST', `/${name}`, body);
  return answer.status === 204 ? { message: '', errors: [] } : answer.body;
};

const id = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';

test('up to 100 faults are all listed; of more the first 100, and the message says so', async () => {
  const bodyOf = (wrong: number) => ({ list_id: id, contact_ids: Array.from({ length: wrong }, () => 5) });
  for (const wrong of [2, 100]) {
    const { message, errors } = await faultsOf('MembersByHand', bodyOf(wrong));
    expect(errors.map(({ path }) => path)).toEqual(Array.from({ length: wrong }, (_, i) => `/contact_ids/${i}`));
    expect(message).toBe(`${wrong} values are not valid`);
  }
  const { message, errors } = await faultsOf('MembersByHand', bodyOf(30_000));
  expect(errors).toHaveLength(100);
  expect(message).toBe('more than 100 values are not valid');
});

test('filters, orders and rules are validated completely, or until there are more than 100 faults', async () => {
  const unknown = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`u${i}`, 'ASC']));
  const pathsOf = async (name: keyof typeof bodies, body: unknown) =>
    (await faultsOf(name, body)).errors.map(({ path }) => path);
  const names = Object.keys(unknown(60));
  expect((await pathsOf('ContactQuery', { filters: unknown(60) })).toSorted()).toEqual(
    ['/filters', ...names.map((name) => `/filters/${name}`)].toSorted(),
  );
  expect(await pathsOf('ContactQuery', { order_by: unknown(60) })).toEqual([
    '/order_by',
    ...names.map((name) => `/order_by/${name}`),
  ]);
  const rule = { field: 'none', operator: 'equals', value: 'x' };
  expect(await pathsOf('ListCreate', { name: 'x', rules: Array.from({ length: 60 }, () => rule) })).toHaveLength(61);
  for (const [name, body] of [
    ['ContactQuery', { filters: unknown(30_000) }],
    ['ListCreate', { name: 'x', rules: Array.from({ length: 6_000 }, () => rule) }],
  ] as const)
    expect((await faultsOf(name, body)).message).toBe('more than 100 values are not valid');
});

test.each([
  ['ContactPatch', { company: 'x' }, 'must be an object or null, such as {"name":"Analytical Engines Ltd"}'],
  ['ContactPatch', { phone_numbers: '1' }, /^must be an array, such as \[\{"country_code":"\+44",/],
  ['ContactPatch', { birth_year: '1815' }, 'must be a whole number or null, such as 1815'],
  ['ContactPatch', { location_country: 'Germany' }, '"Germany" is not a country code; send "DE"'],
  ['ContactPatch', { location_country: 'USA' }, '"USA" is not a country code; send "US"'],
  ['ContactPatch', { location_country: 'X' }, '"X" is not a country code, such as DE'],
  ['ContactPatch', { job_title: null }, 'must be a string, such as "Analyst"; send "" for none'],
  ['ContactPatch', { location_country: null }, 'must be a string, such as "GB"; send "" for none'],
  ['ContactPatch', { first_name: null }, /^must be a string, such as "Ada"$/],
  ['ContactPatch', { work_email: '' }, 'must be an e-mail address; send null for none'],
  ['ContactPatch', { external_id: '' }, 'must not be empty; send null for none'],
  ['ContactPatch', { first_name: '' }, /^must not be empty$/],
  ['ContactQuery', { order_by: { last_name: 'asc' } }, 'must be one of ASC, DESC'],
  ['ContactQuery', { filters: { score: '5' } }, 'must be a whole number or an array or an object or null'],
  ['ContactQuery', { filters: { 'custom_fields.seats': { between: [1, '2'] } } }, 'must be a string'],
  ['ContactPatch', { gender: 'x'.repeat(256) }, 'must have at most 255 characters'],
  ['Declaration', { type: 'choice', choices: ['a', 'b', 'a'] }, 'elements 0 and 2 are the same'],
  ['ContactQuery', { order_by: '-x' }, /^must be an object or an array, such as \{"/],
] as const)('a fault of %s says which form is right: %j', async (name, body, message) => {
  const [fault] = (await faultsOf(name, body)).errors;
  expect(fault!.message).toMatch(message);
});
