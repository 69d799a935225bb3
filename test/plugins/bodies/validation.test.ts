import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ruleKeyword, keywords } from '../../../src/validation/validator.ts';
import { ContactPatch, ContactQuery } from '../../../src/schemas/contacts.ts';
import { formats } from '../../../src/schemas/formats.ts';
import { VerifyEmail } from '../../../src/schemas/jobs.ts';
import { ListCreate, MembersByHand } from '../../../src/schemas/lists.ts';
import { OpportunityPatch } from '../../../src/schemas/opportunities.ts';
import { Declaration } from '../../../src/schemas/wire.ts';
import { escapePointer } from '../../../src/text/json.ts';
import { appWithoutDatabase, type Json } from '../../contract/declared.ts';
import { propertiesOf, positionsOf } from '../../contract/positions.ts';
import { inject } from '../../setup/factories.ts';

const bodies = { ContactPatch, ContactQuery, Declaration, ListCreate, MembersByHand, OpportunityPatch, VerifyEmail };

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

describe('the faults are the same as those of Ajv with allErrors', () => {
  const ajv = new Ajv2020({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    formats,
    keywords: [ruleKeyword, ...keywords],
  });

  /** Ajv reports an invalid property name twice: for the object and for the name. */
  const pathOf = ({ instancePath, params, propertyName }: ErrorObject): string => {
    const name = params['missingProperty'] ?? params['additionalProperty'] ?? params['propertyName'] ?? propertyName;
    return name === undefined ? instancePath : `${instancePath}/${escapePointer(name as string)}`;
  };

  const { ContactQuery: _, ...withoutAlternatives } = bodies;

  test.each(Object.entries(withoutAlternatives))('%s', async (name, schema) => {
    const validate = ajv.compile(schema);
    const names = new Set(positionsOf(schema as Json).flatMap((one) => Object.keys(propertiesOf(one.schema))));
    const key = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...names) },
      fc.constantFrom('x', 'a/b~c', 'k'.repeat(65), ''),
    );
    const leaf = fc.constantFrom<unknown>(
      1,
      -1,
      1.5,
      'x',
      '',
      null,
      true,
      'a@b.de',
      '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b',
    );
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(key, tie('value'), { maxKeys: 5 }),
      ),
    }));
    await fc.assert(
      fc.asyncProperty(fc.dictionary(key, value, { maxKeys: 6 }), async (body) => {
        const expected = validate(body) ? [] : [...new Set(validate.errors!.map(pathOf))];
        const { errors } = await faultsOf(name as keyof typeof bodies, body);
        expect(errors.map(({ path }) => path).toSorted()).toEqual(expected.toSorted());
      }),
      { numRuns: 300 },
    );
  });
});

const id = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';

test('up to 100 faults are all listed; of more the first 100, and the message says so', async () => {
  const bodyOf = (wrong: number) => ({ list_id: id, contact_ids: Array.from({ length: wrong }, () => 5) });
  for (const wrong of [2, 99, 100]) {
    const { message, errors } = await faultsOf('MembersByHand', bodyOf(wrong));
    expect(errors.map(({ path }) => path)).toEqual(Array.from({ length: wrong }, (_, i) => `/contact_ids/${i}`));
    expect(message).toBe(`${wrong} values are not valid`);
  }
  for (const wrong of [101, 999, 30_000]) {
    const { message, errors } = await faultsOf('MembersByHand', bodyOf(wrong));
    expect(errors).toHaveLength(100);
    expect(message).toBe('more than 100 values are not valid');
  }
});

test('array elements beyond maxItems are validated too', async () => {
  const contact_ids: unknown[] = Array.from({ length: 1_500 }, () => id);
  contact_ids[1_400] = 'x';
  const { errors } = await faultsOf('MembersByHand', { list_id: id, contact_ids });
  expect(errors.map(({ path }) => path)).toEqual(['/contact_ids', '/contact_ids/1400']);
});

test('of a body with more values than 64 KiB can hold, at least the first fault is listed', async () => {
  const unknown = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`u${i}`, i]));
  const rows = { ContactPatch: unknown, VerifyEmail: { emails: Array.from({ length: 100_000 }, () => ({})) } };
  for (const [name, body] of Object.entries(rows)) {
    const { errors } = await faultsOf(name as keyof typeof bodies, body);
    expect(errors).toHaveLength(1);
  }
  const { errors } = await faultsOf('ContactPatch', { custom_fields: unknown });
  expect(errors).toEqual([{ path: '/custom_fields', message: 'must NOT have more than 100 properties' }]);
});

test('filters, orders and rules are validated completely, or until there are more than 100 faults', async () => {
  const unknown = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`u${i}`, 'ASC']));
  const pathsOf = async (name: keyof typeof bodies, body: unknown) =>
    (await faultsOf(name, body)).errors.map(({ path }) => path);
  const names = Object.keys(unknown(60));
  const filters = await pathsOf('ContactQuery', { filters: { ...unknown(60), last_name: Array(101).fill(5) } });
  expect(filters).toHaveLength(100);
  expect((await pathsOf('ContactQuery', { filters: unknown(60) })).toSorted()).toEqual(
    ['/filters', ...names.map((name) => `/filters/${name}`)].toSorted(),
  );
  expect(
    (await pathsOf('ContactQuery', { filters: { _or: Array.from({ length: 30 }, () => ({ nam: 1 })) } })).length,
  ).toBe(32);
  expect(await pathsOf('ContactQuery', { order_by: unknown(60) })).toEqual([
    '/order_by',
    ...names.map((name) => `/order_by/${name}`),
  ]);
  const rule = { field: 'none', operator: 'equals', value: 'x' };
  expect(await pathsOf('ListCreate', { name: 'x', rules: Array.from({ length: 60 }, () => rule) })).toHaveLength(61);
  for (const [name, body] of [
    ['ContactQuery', { filters: unknown(30_000) }],
    ['ContactQuery', { order_by: unknown(30_000) }],
    ['ContactQuery', { filters: { last_name: Array(30_000).fill(5) } }],
    ['ListCreate', { name: 'x', rules: Array.from({ length: 6_000 }, () => rule) }],
  ] as const)
    expect((await faultsOf(name, body)).message).toBe('more than 100 values are not valid');
});

test.each([
  ['ContactPatch', { company: 'x' }, 'must be an object or null, such as {"name":"Analytical Engines Ltd"}'],
  ['ContactPatch', { phone_numbers: '1' }, /^must be an array, such as \[\{"country_code":"\+44",/],
  ['ContactPatch', { birth_year: '1815' }, 'must be a whole number or null, such as 1815'],
  ['ContactPatch', { location_country: 'Germany' }, '"Germany" is not a country code: DE'],
  ['ContactPatch', { location_country: 'USA' }, '"USA" is not a country code: US'],
  ['ContactPatch', { location_country: 'X' }, '"X" is not a country code, such as DE'],
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

test('an overlong property name is a fault of its own', async () => {
  const { errors } = await faultsOf('ContactPatch', { custom_fields: { ['k'.repeat(65)]: 1, ok: 1 } });
  const message = 'has a name that must have at most 64 characters';
  expect(errors).toEqual([{ path: `/custom_fields/${'k'.repeat(65)}`, message }]);
});

test('unstorable texts are listed with the other faults, within the same maximum', async () => {
  const nul = '\0';
  const { errors } = await faultsOf('ContactPatch', {
    last_name: nul,
    'a/~': 1,
    custom_fields: { [`b${nul}`]: 'x', c: nul },
  });
  expect(errors.map(({ path }) => path).toSorted()).toEqual([
    '/a~1~0',
    '/custom_fields',
    '/custom_fields/c',
    '/last_name',
  ]);
  const many = await faultsOf('MembersByHand', { list_id: 5, contact_ids: Array.from({ length: 1_000 }, () => nul) });
  expect(many.message).toBe('more than 100 values are not valid');
  expect(many.errors).toHaveLength(100);
});
