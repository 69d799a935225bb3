import { expect, test } from 'vitest';
import { summaryOf } from '../../src/process/opentelemetry.ts';

const statements: [statement: string, summary: string][] = [
  ['\n  select c.id, (select count(*) from lists) from contacts c where c.email = $1', 'SELECT contacts'],
  ['insert into jobs (customer_id) values ($1) returning id', 'INSERT jobs'],
  ['update "jobs" set status = $1 where id = $2', 'UPDATE jobs'],
  ['delete from sessions where id = $1', 'DELETE sessions'],
  ['with next as (select j.id from jobs j for update) update jobs j set lease = $1 from next', 'UPDATE jobs'],
  ['with a as (insert into audit (x) values ($1)) select * from a', 'SELECT a'],
  ["select 'from secret' -- from comment\n from pgboss.job where name = 'it''s from here'", 'SELECT pgboss.job'],
  ['select (select count(*) from prospects) - 0 as count', 'SELECT prospects'],
  ['', 'STATEMENT'],
];

test.each(statements)('the summary of %j is %s', (statement, summary) => {
  expect(summaryOf(statement)).toBe(summary);
});

test('a summary has at most 255 characters and is found quickly, whatever the statement', () => {
  expect(summaryOf(`select from ${'x'.repeat(1_000)}`)).toHaveLength(255);
  expect(summaryOf(`select ${'('.repeat(2_000)}1${')'.repeat(2_000)} from contacts`)).toBe('SELECT contacts');
});
