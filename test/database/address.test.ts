import { expect, test } from 'vitest';
import { addressOf } from '../../src/database/connection.ts';

test('the address of a database has no user and no password, also if the URL names several hosts', () => {
  expect(addressOf('postgres://user:s%40cret@db.example.com/sales?sslmode=require')).toEqual({
    host: 'db.example.com',
    port: '5432',
    name: 'sales',
  });
  expect(addressOf('postgres://user:secret@one:5433,two/sales')).toEqual({
    host: 'one,two',
    port: '5433,5433',
    name: 'sales',
  });
});
