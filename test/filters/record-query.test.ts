import { expect, test } from 'vitest';
import { contactSource } from '../../src/filters/columns.ts';
import { nextCursor, parseRecordQuery, type ListRequest } from '../../src/filters/parse.ts';

const customerId = '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b';
const row = {
  id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c',
  last_name: 'Łódź',
  gender: null,
  score: 7,
  created_at: '2026-03-14T09:26:53.589Z',
  company: { id: null, company_name: '', industry: '' },
};

const read = (request: ListRequest, customer = customerId) => parseRecordQuery(contactSource, customer, request);

/** Returns the cursor after a full page of this request that ends with `last`. */
const cursorOf = (request: ListRequest, last: object = row): string =>
  nextCursor(read({ ...request, paginate: { limit: 1 } }), [last])!;

const request = {
  filters: { score: { gte: 5 }, gender: ['f', 'm'] },
  order_by: { last_name: 'ASC', gender: 'DESC', 'company.company_name': 'ASC' },
};
const cursor = cursorOf(request);

test('a cursor is valid with another limit and with equivalent filters', () => {
  const rewritten = { filters: { gender: { in: ['M', 'f', 'F'] }, score: { gte: 5 } }, order_by: request.order_by };
  expect(read({ ...rewritten, paginate: { cursor, limit: 99 } }).limit).toBe(99);
});

const refusal = /^\/paginate\/cursor: is not a cursor/;
const { filters, order_by } = request;

test.each<[string, ListRequest, string?]>([
  ['with other filters', { filters: { ...filters, score: { gte: 6 } }, order_by }],
  ['with no filters', { order_by }],
  ['with other keys', { filters, order_by: { last_name: 'ASC' } }],
  ['with another direction', { filters, order_by: { ...order_by, last_name: 'DESC' } }],
  ['with no order', { filters }],
  ['for another customer', request, row.id],
])('a cursor is rejected %s', (_, other, customer) => {
  expect(() => read({ ...other, paginate: { cursor } }, customer)).toThrow(refusal);
});

test('a cursor is rejected together with a page', () => {
  expect(() => read({ ...request, paginate: { cursor, page: 1 } })).toThrow(
    /^\/paginate\/cursor: cannot be combined with page/,
  );
});

test('a cursor is rejected if it is not one that could have been issued', () => {
  const [scope, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as [string, string];
  const forged = (...value: unknown[]) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const values = ['lodz', null, ''];
  expect(() => read({ ...request, paginate: { cursor: forged(scope, id, values) } })).not.toThrow();
  const texts = ['', 'x', `${cursor}=`, ` ${cursor}`, `${cursor}A`, cursor.slice(0, -1), 'A'.repeat(5000)];
  const shapes = [[], [scope], [scope, id, values, 1], [scope, 'x', values], [scope, id.toUpperCase(), values]];
  const places = [['lodz'], [5, null, ''], ['Lodz', null, ''], ['lodz', null, null], ['\ud800', null, '']];
  for (const one of [...texts, ...shapes.map((some) => forged(...some)), ...places.map((at) => forged(scope, id, at))])
    expect(() => read({ ...request, paginate: { cursor: one } })).toThrow(refusal);
  for (const [field, value] of [
    ['score', 2 ** 31],
    ['score', null],
    ['created_at', '2026-02-30T00:00:00.000Z'],
    ['assigned_to', 'x'],
  ] as const) {
    const order_by = { [field]: 'ASC' };
    const paginate = { cursor: forged(read({ order_by }).scope, row.id, [value]) };
    expect(() => read({ order_by, paginate })).toThrow(refusal);
  }
});

test('a cursor fits into a header, for every sort key', () => {
  const long = '漢'.repeat(2048);
  const order_by = { profnet_url: 'ASC', social1_url: 'DESC', social2_url: 'ASC' };
  const short = cursorOf(
    { order_by },
    { ...row, profnet_url: long.slice(0, 255), social1_url: long.slice(0, 255), social2_url: long.slice(0, 255) },
  );
  const cut = cursorOf({ order_by }, { ...row, profnet_url: long, social1_url: long, social2_url: 'x' });
  expect(short.length).toBeLessThan(4096);
  expect(read({ order_by, paginate: { cursor: short } }).after?.values[0]).toBe(long.slice(0, 255));
  expect(read({ order_by, paginate: { cursor: cut } }).after?.values).toEqual([
    { hash: expect.stringMatching(/^[\w-]{22}$/) },
    { hash: expect.stringMatching(/^[\w-]{22}$/) },
    'x',
  ]);
});
