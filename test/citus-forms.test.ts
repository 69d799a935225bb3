import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { placementOf } from '../src/database/citus.ts';

// Forms of SQL that Citus 14 refuses on distributed tables, or runs with another result. Each was run on a real cluster.

/** What stands in a statement for a value or a fragment that is put into it. */
const hole = '$$';

/** A form that Citus refuses. */
interface Form {
  name: string;
  /** Returns whether a statement, or a fragment of one, has the form. */
  isIn: (text: string) => boolean;
  /** Statements with the form. */
  refused: string[];
}

const volatile = String.raw`(?:clock_timestamp|timeofday|gen_random_uuid|uuidv[47]|random|nextval)\(`;
const matching = (pattern: string) => {
  const expression = new RegExp(pattern, 'is');
  return (text: string): boolean => expression.test(text);
};

const forms: Form[] = [
  {
    name: 'a volatile function outside of `(select …)`; column defaults may be one',
    isIn: matching(String.raw`(?<!select )(?<!default )\b${volatile}`),
    refused: ['update jobs set due_at = clock_timestamp()', 'update jobs set turn = gen_random_uuid()'],
  },
  {
    name: 'a volatile function within `case` or `coalesce`: read it in a `with` part',
    isIn: matching(String.raw`(?:coalesce\((?:[^()]|\([^()]*\))*|\bcase\b(?:(?!\bend\b).)*)\(\s*select ${volatile}`),
    refused: [
      'set started_at = coalesce(j.started_at, (select clock_timestamp()))',
      'set due_at = case when turn is not null then (select clock_timestamp()) end',
    ],
  },
  {
    name: '`now()` or an interval within `case` or `coalesce` of an update: read it in a `with` part',
    isIn: matching(
      String.raw`\bset\b[^;]*\bcase\b(?:(?!\bend\b).)*(?:\bnow\(\)|::interval|\binterval '|\bcurrent_timestamp\b)`,
    ),
    refused: [
      'update runs set seen_at = case when a then now() else seen_at end',
      `update runs set one = case when at < b - ${hole}::interval then other else one end`,
    ],
  },
  {
    name: '`= default` in an update: use `excluded`, or a value of the service',
    isIn: matching(String.raw`=\s*default\b`),
    refused: ['on conflict (customer_id) do update set version = default'],
  },
  {
    name: '`skip locked` across customers; api_keys is no tenant table',
    isIn: (text) => /skip locked/i.test(text) && !/customer_id = \$\$|from api_keys/i.test(text),
    refused: ['select id from jobs where purged_at is null limit 1 for no key update skip locked'],
  },
  {
    name: 'a subquery within `values`: use `insert … select`; the catalogs are no tenant table',
    isIn: matching(String.raw`insert into (?!catalogs\b)\w+[^;]*\bvalues\s*\((?:[^()]|\([^()]*\))*\(\s*select\b`),
    refused: ['insert into jobs (id, at) values ($1, (select now()))'],
  },
  {
    name: '`now()` within `returning`: read what was written in a `with` part',
    isIn: matching(String.raw`\breturning\b[^;)]*\bnow\(\)`),
    refused: ['update api_keys set name = $1 returning expires_at <= now()'],
  },
  {
    name: 'a subquery that takes the customer from the row outside: name the customer in each subquery',
    isIn: matching(String.raw`\bwhere \w+\.customer_id = [a-z]\w*\.customer_id`),
    refused: [
      'select array(select m.list_id from list_members m where m.customer_id = c.customer_id and m.contact_id = c.id)',
    ],
  },
  {
    name: 'an insert within `with` that reads another `with` part, which Citus copies to all nodes: make the insert the last part',
    isIn: (text) => /\bwith\b/i.test(text) && insertsInWith(text).some((insert) => readsPart(insert, text)),
    refused: [
      'with moved as (update a set b = $1 returning c), e as (insert into d (c) select c from moved returning 1) select 1 from e',
    ],
  },
  {
    name: 'a subquery without columns: `select 1`',
    isIn: matching(String.raw`\(\s*select\s+from\b`),
    refused: ["select exists (select from jobs where status = 'PENDING')"],
  },
  {
    name: 'a cast of a given text to another type in `set`: give the type with jsonb_to_recordset or unnest',
    isIn: matching(String.raw`\bset\b[^;]*?= (?:given|item|row)\.\w+::`),
    refused: ['update contacts t set folded = given.folded::jsonb from unnest($1::text[]) as given (folded)'],
  },
  {
    name: 'a whole row as a value, which loses its names if the table has a virtual column: list the columns',
    isIn: matching(String.raw`\b(?:to_jsonb?|row_to_json)\((?:[a-z]|co)\)`),
    refused: ['select to_jsonb(t) from contacts t'],
  },
  {
    name: 'a lock of rows that every node has: it locks the whole table, and those to which it refers',
    isIn: matching(
      String.raw`\bfrom (?:users|customers|subscription_tiers|prospects)\b(?:(?!\bfrom\b).)*\bfor (?:no key )?(?:update|share|key share)\b`,
    ),
    refused: ['select id from users where id = $1 for share'],
  },
  {
    name: '`on conflict` with rows that every node has: it locks the whole table, and those to which it refers',
    isIn: matching(String.raw`\binsert into (?:users|customers|subscription_tiers)\b.*\bon conflict\b`),
    refused: ['insert into users (email) values ($1) on conflict do nothing'],
  },
  {
    name: 'a column that is cast to a time in an update: give the type with jsonb_to_recordset',
    isIn: matching(String.raw`\bupdate\b[^;]*\b\w+\.\w+::timestamptz`),
    refused: ['update lists l set name = $1 from unnest($2::text[]) as given (at) where l.at < given.at::timestamptz'],
  },
  {
    name: '`now()` or an interval in the condition of `on conflict`: update before the insert',
    isIn: matching(String.raw`\bon conflict\b[^;]*\bdo update\b[^;]*\bwhere\b[^;]*(?:\bnow\(\)|\binterval\b)`),
    refused: [
      "insert into lists (at) values ($1) on conflict do update set at = excluded.at where lists.at < now() - interval '1 day'",
    ],
  },
  {
    name: 'a lateral subquery without `from` that has a subquery: select it in a subquery of the table',
    isIn: (text) =>
      lateralsIn(text).some((part) => /\(\s*select\b/i.test(part) && !/\bfrom\b/i.test(withoutInner(part))),
    refused: ['from contacts c cross join lateral (select exists (select 1 from unnest(c.emails) e) as found) t'],
  },
  {
    name: 'a recursive query that is not of one customer',
    isIn: (text) => /\bwith recursive\b/i.test(text) && !/customer_id = \$/i.test(text),
    refused: ['with recursive found as (select customer_id from contacts) select customer_id from found'],
  },
];

/** Text without parentheses, or with those of two levels. */
const nested = String.raw`(?:[^()]|\((?:[^()]|\([^()]*\))*\))*`;

/** Returns what stands in lateral subqueries. */
const lateralsIn = (text: string): string[] =>
  [...text.matchAll(new RegExp(String.raw`\blateral \((${nested})\)`, 'gi'))].map((match) => match[1]!);

const withoutInner = (text: string): string => text.replaceAll(new RegExp(String.raw`\(${nested}\)`, 'g'), '');

/** Returns the inserts that are parts of a `with`. */
const insertsInWith = (text: string): string[] =>
  [...text.matchAll(/\bas (?:materialized )?\(\s*(insert into\b(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)/gi)].map(
    (match) => match[1]!,
  );

/** Returns whether a part of a statement reads a `with` part of the statement. */
const readsPart = (part: string, text: string): boolean =>
  [...text.matchAll(/(?:\bwith|,)\s+(\w+) as (?:materialized )?\(/gi)].some((match) =>
    new RegExp(String.raw`\b(?:from|join) ${match[1]}\b`, 'i').test(part),
  );

const referencesIn = (text: string): string[] => [...text.matchAll(/\breferences (\w+)/gi)].map((match) => match[1]!);

const migrationForms: Form[] = [
  {
    name: '`add constraint` together with another change in one statement',
    isIn: (text) =>
      /\badd constraint\b/i.test(text) && /\b(?:add column|drop constraint|drop column|alter column)\b/i.test(text),
    refused: [
      'alter table lists add column source text, add constraint source_known check (true)',
      'alter table lists drop constraint if exists source_known, add constraint source_known check (true)',
    ],
  },
  {
    name: '`create table` with foreign keys to both kinds of tables: add one of them afterwards',
    isIn: (text) => new Set(referencesIn(text).map((name) => placementOf(name))).size > 1,
    refused: [
      'create table t (foreign key (customer_id) references customers (id), foreign key (customer_id, j) references jobs (customer_id, id))',
    ],
  },
  {
    name: 'a key or unique index of a table of tenants that does not start with customer_id',
    isIn: (text) =>
      (/\bcreate table\b/i.test(text) &&
        /^\s*customer_id\s/im.test(text) &&
        /\b(?:primary key|unique)\s*\((?!\s*customer_id\b)/i.test(text)) ||
      /\bcreate unique index\b[^(]*\((?!\s*customer_id\b)/i.test(text),
    refused: ['create table t (\ncustomer_id uuid,\nid uuid,\nprimary key (id))', 'create unique index u on t (id)'],
  },
  {
    name: 'a trigger',
    isIn: matching(String.raw`\bcreate (?:or replace )?(?:constraint )?trigger\b`),
    refused: ['create trigger t after insert on contacts execute function f()'],
  },
  {
    name: '`on delete set null`: detach by an update',
    isIn: matching(String.raw`\bon delete set (?:null|default)\b`),
    refused: ['foreign key (customer_id, c) references companies (customer_id, id) on delete set null'],
  },
];

/**
 * The last migration of release 1.0.0. These migrations never run in a distributed database: `migrate --distribute` needs
 * them all.
 */
const newestUndistributed = '0007';

const root = join(import.meta.dirname, '..');
const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((path) =>
  path.endsWith('.ts'),
);
const migrations = readdirSync(join(root, 'sql', 'migrations')).filter(
  (name) => name.slice(0, newestUndistributed.length) > newestUndistributed,
);

/** Every text in the code of a module, with holes where something is put in. */
function textsOf(module: string): string[] {
  const path = join(root, 'src', module);
  const texts: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteralLike(node)) texts.push(node.text);
    if (ts.isTemplateExpression(node))
      texts.push([node.head, ...node.templateSpans.map(({ literal }) => literal)].map(({ text }) => text).join(hole));
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest));
  return texts.map(withoutComments);
}

/** Tables that stay on the coordinator and are never distributed: their statements may have any form. */
const localTables =
  /\b(?:pg_extension|pg_attribute|pg_dist_partition|failed_logins|password_links|schema_migrations)\b/;

const withoutComments = (text: string): string => text.replaceAll(/--.*$/gm, '');

const statementsOf = (migration: string): string[] =>
  withoutComments(readFileSync(join(root, 'sql', 'migrations', migration), 'utf8')).split(/;[^\S\n]*(?:\n|$)/);

const statements = sources.flatMap((module) => textsOf(module).map((text) => ({ where: module, text })));
const changes = migrations.flatMap((name) => statementsOf(name).map((text) => ({ where: name, text })));

test('the statements of the service are found', () => {
  expect(statements.filter(({ text }) => /^\s*(select|insert|update|delete|with)\b/.test(text)).length).toBeGreaterThan(
    100,
  );
});

test.each([
  ...forms.map((form) => ({ ...form, texts: [...statements, ...changes] })),
  ...migrationForms.map((form) => ({ ...form, texts: changes })),
])('is recognised, and is in no statement: $name', ({ isIn, refused, texts }) => {
  expect(refused.filter((text) => !isIn(text))).toEqual([]);
  expect(texts.filter(({ text }) => isIn(text) && !localTables.test(text))).toEqual([]);
});

/**
 * Returns the tables that a migration creates without saying when to move them to the nodes. A table is moved before it
 * gets its foreign keys, because Citus refuses one between a distributed table and one that is not.
 */
function unplacedTables(migration: string): string[] {
  const created = [...migration.matchAll(/^create table (?:if not exists )?(\w+) \([^;]*;\n(-- place: \w+\n)?/gm)];
  return created
    .filter(
      ([text, name, line]) =>
        placementOf(name!) !== 'local' && (line !== `-- place: ${name}\n` || /references/.test(text)),
    )
    .map(([, name]) => name!);
}

test('migrations say when to move a new table to the nodes, before its foreign keys', () => {
  const table = 'create table notes (\n  customer_id uuid not null\n);\n';
  expect(unplacedTables(table)).toEqual(['notes']);
  expect(unplacedTables(`${table}-- place: notes\n`)).toEqual([]);
  expect(unplacedTables(`${table.replace('null', 'null references jobs')}-- place: notes\n`)).toEqual(['notes']);
  expect(unplacedTables(table.replace('notes', 'failed_logins'))).toEqual([]);
  const texts = migrations.map((name) => readFileSync(join(root, 'sql', 'migrations', name), 'utf8'));
  // A table of the coordinator that a later migration drops is not in the list of such tables any more.
  const dropped = new Set(texts.join('').match(/(?<=^drop table )\w+/gm));
  expect(texts.flatMap(unplacedTables).filter((table) => !dropped.has(table))).toEqual([]);
});
