import { constantFrom, integer, sample } from 'fast-check';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../setup/database.ts';
import { startFaultyProxy } from '../setup/faulty-proxy.ts';
import { seed } from '../setup/seed.ts';

let database: TestDatabase;
const opened: postgres.Sql[] = [];

beforeAll(async () => {
  database = await createDatabase();
  const owner = connect({}, database.ownerUrl);
  await owner`create table shapes (id integer not null, document jsonb)`;
  await owner`create table parents (id integer primary key)`;
  await owner`
    create table children (
      id integer not null,
      parent integer not null references parents (id) deferrable initially deferred
    )`;
  await owner`grant select, insert on shapes, parents, children to public`;
});
afterAll(async () => {
  await Promise.all(opened.map((sql) => sql.end({ timeout: 1 })));
  await database.drop();
});

/** A type whose values can fail to serialise or parse; PostgreSQL's `name`. */
const fussy = {
  to: 19,
  from: [19],
  serialize: (value: string) => refuse(value, 'unwritable'),
  parse: (text: string) => refuse(text, 'unreadable'),
};

function refuse(text: string, word: string): string {
  if (text.startsWith(word)) throw new Error(text);
  return text;
}

type Client = postgres.Sql<{ fussy: string }>;
type Options = postgres.Options<{ fussy: typeof fussy }>;

/** Opens a client with a single connection. */
function connect(options: Options = {}, url = database.url): Client {
  const all: Options = { max: 1, fetch_types: false, onnotice: () => {}, types: { fussy }, ...options };
  const sql = postgres(url, all) as unknown as Client;
  opened.push(sql);
  return sql;
}

type Session = Client | postgres.TransactionSql<{ fussy: string }>;

/** A statement and its expected outcome: rows, or the code or message of an error. */
interface Kind {
  send: (sql: Session, n: number) => PromiseLike<unknown>;
  outcome: (n: number) => unknown;
}

const rows = (n: number) => [{ n }];
const missing = undefined as unknown as string;

const good: Record<string, Kind> = {
  'a parameter': { send: (sql, n) => sql`select ${n}::integer as n`, outcome: rows },
  'many rows': {
    send: (sql, n) => sql`select ${n}::integer + i as n from generate_series(0, 4) as i`,
    outcome: (n) => [0, 1, 2, 3, 4].map((i) => ({ n: n + i })),
  },
  'no parameter': { send: (sql) => sql`select 7 as n`, outcome: () => rows(7) },
  'a simple statement': { send: (sql, n) => sql.unsafe(`select ${n} as n`), outcome: rows },
  'a text that is new': { send: (sql, n) => sql.unsafe(`select $1::integer as n -- ${n}`, [n]), outcome: rows },
  'a type of ours': {
    send: (sql, n) => sql`select ${sql.typed.fussy(`name ${n}`)}::name as n`,
    outcome: (n) => [{ n: `name ${n}` }],
  },
};

/** Statements that fail before they are executed: an open transaction stays usable. */
const unsent: Record<string, Kind> = {
  'an undefined parameter': { send: (sql, n) => sql`select ${n}, ${missing}`, outcome: () => 'UNDEFINED_VALUE' },
  'a value that cannot be written': {
    send: (sql, n) => sql`select ${n}::integer, ${sql.typed.fussy(`unwritable ${n}`)}::name`,
    outcome: (n) => `unwritable ${n}`,
  },
  "a value that cannot be written, as the server's answer shows": {
    send: (sql, n) => sql`select ${new Unwritable(n) as unknown as string}::text`,
    outcome: (n) => `unwritable ${n}`,
  },
  'rows that cannot be read': {
    send: (sql, n) => sql`select ('unreadable ' || ${String(n)}::text)::name from generate_series(1, 3)`,
    outcome: (n) => `unreadable ${n}`,
  },
};

/** Statements that the server rejects: an open transaction fails with them. */
const refused: Record<string, Kind> = {
  'an error between rows': {
    send: (sql, n) => sql`select ${n}::integer / (4 - i) from generate_series(1, 9) as i`,
    outcome: () => '22012',
  },
  'an error before any row': { send: (sql, n) => sql`select ${`x${n}`}::text::integer`, outcome: () => '22P02' },
  'a simple statement with a parameter': {
    send: (sql, n) => sql`select ${n}::integer`.simple(),
    outcome: () => '42P02',
  },
  'a simple statement that fails': { send: (sql) => sql.unsafe('select 1; select 1/0'), outcome: () => '22012' },
};

class Unwritable {
  readonly n: number;
  constructor(n: number) {
    this.n = n;
  }
  toString(): string {
    throw new Error(`unwritable ${this.n}`);
  }
}

/** Returns the outcome of a statement: its rows, or the error's code, or else its message. */
const settle = (work: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(work).then(
    (result) => [...(result as Iterable<unknown>)],
    (error: Error & { code?: string }) => error.code ?? error.message,
  );

/** Sends `count` statements in bursts of random size. Returns every outcome that differs from the expected one. */
async function mix(sql: Session, kinds: Record<string, Kind>, count: number): Promise<unknown[]> {
  const names = sample(constantFrom(...Object.keys(kinds)), { numRuns: count, seed });
  const sizes = sample(integer({ min: 1, max: 150 }), { numRuns: count, seed });
  const wrong: unknown[] = [];
  for (let at = 0; at < count;) {
    const burst = names.slice(at, (at += sizes[at]!));
    const first = at;
    const outcomes = await Promise.all(burst.map((name, i) => settle(kinds[name]!.send(sql, first + i))));
    for (const [i, seen] of outcomes.entries()) {
      const wanted = kinds[burst[i]!]!.outcome(first + i);
      if (JSON.stringify(seen) !== JSON.stringify(wanted)) wrong.push({ kind: burst[i], seen, wanted });
    }
  }
  return wrong;
}

describe.each([
  ['prepared', {}],
  ['described first', { prepare: false }],
])(`statements on one connection, %s (SEED=${seed})`, (_how, options) => {
  test('get their own rows or their own error, whichever of them fail', async () => {
    expect(await mix(connect(options), { ...good, ...unsent, ...refused }, 3_400)).toEqual([]);
  });

  test('get their own outcome inside transactions and savepoints too', async () => {
    const sql = connect(options);
    for (let i = 0; i < 10; i++) {
      const wrong: unknown[] = [];
      const work = sql.begin(async (tx) => {
        wrong.push(...(await mix(tx, i % 2 ? good : { ...good, ...unsent }, 40)));
        await tx.savepoint((inner) => mix(inner, good, 10).then((more) => wrong.push(...more)));
        const lost = tx.savepoint(async (inner) => {
          wrong.push(...(await mix(inner, { ...good, ...unsent }, 10)));
          await inner`select 1 / 0`;
        });
        expect(await settle(lost as unknown as Promise<[]>)).toBe('22012');
        wrong.push(...(await mix(tx, good, 10)));
        return [];
      });
      // A transaction with a failed statement is rolled back, even if the error was caught.
      const outcome = await settle(work);
      expect(Array.isArray(outcome)).toBe(i % 2 === 1);
      expect(wrong).toEqual([]);
    }
    expect(await sql`select pg_current_xact_id_if_assigned() as id, 1 as n`).toEqual([{ id: null, n: 1 }]);
  });
});

test('a statement whose plan is out of date is sent again without affecting the statements behind it, and serialises its values once', async () => {
  const owner = connect({}, database.ownerUrl);
  const sql = connect();
  const stale = (id: number) =>
    sql`insert into shapes (id, document) values (${id}, ${sql.json({ id: `"${id}"` })}) returning *`;
  await stale(0);
  for (let round = 1; round <= 20; round++) {
    await owner.unsafe(`alter table shapes add column extra_${round} integer`);
    const outcomes = [];
    const [first, others] = [round * 100, 30];
    outcomes.push(settle(stale(first)));
    // While responses arrive and the connection can take more statements.
    for (let n = first + 1; n <= first + others; n++) {
      if (n % 5 === 0) await outcomes.at(-1);
      outcomes.push(settle(n % 7 === 0 ? stale(n) : sql`select ${n}::integer as id`));
    }
    const seen = (await Promise.all(outcomes)) as { id: number; document?: unknown }[][];
    expect(seen.map(([row]) => row?.id)).toEqual(seen.map((_, i) => first + i));
    const documents = seen.flatMap(([row]) => (row!.document ? [[row!.document, { id: `"${row!.id}"` }]] : []));
    for (const [kept, given] of documents) expect(kept).toEqual(given);
  }
});

describe('a statement that is cancelled', () => {
  const cancelled = '57014';

  // The server ignores a cancel request that arrives before a statement has started, and cancels the statement behind if the
  // request arrives late, which can be one of the next round.
  test('between others in flight gives no statement the rows of another one', async () => {
    const sql = connect();
    for (let i = 0; i < 10; i++) {
      const before = sql`select ${1}::integer as n from pg_sleep(0.02)`.execute();
      const victim = sql`select ${2}::integer as n from pg_sleep(0.1)`.execute();
      const behind = [3, 4, 5].map((n) => sql`select ${n}::integer as n from pg_sleep(0.005)`.execute());
      const outcomes = Promise.all([before, victim, ...behind].map(settle));
      await new Promise(setImmediate);
      victim.cancel();
      const seen = await outcomes;
      expect(seen).toEqual([1, 2, 3, 4, 5].map((n, at) => (seen[at] === cancelled ? cancelled : rows(n))));
    }
  });
});

test('a cancel request that cannot be sent affects no other statement', async () => {
  const proxy = await startFaultyProxy(database.url);
  const sql = connect({}, proxy.through(database.url));
  const sleeping = settle(sql`select 1 as n`);
  expect(await sleeping).toEqual(rows(1));
  const victim = sql`select 2 as n from pg_sleep(0.2)`.execute();
  const outcome = settle(victim);
  await new Promise(setImmediate);
  proxy.hangUp(true);
  victim.cancel();
  expect(await outcome).toEqual(rows(2));
  await proxy.close();
});

describe('a cursor', () => {
  /** A statement sent after the cursor must get its own rows, wherever the cursor ended. */
  const others = (sql: Session): Promise<unknown[]> =>
    Promise.all([1, 2, 3].map((n) => settle(sql`select ${n}::integer as n`)));
  const theirs = [1, 2, 3].map(rows);
  const read = async (statement: postgres.PendingQuery<postgres.Row[]>, size: number, stopAt = Infinity) => {
    const seen: unknown[] = [];
    for await (const batch of statement.cursor(size)) {
      seen.push(...batch);
      if (seen.length >= stopAt) break;
    }
    return seen;
  };

  test.each([
    ['read to its end', (sql: Client) => read(sql`select ${1}::integer from generate_series(1, 5)`, 2)],
    ['closed early', (sql: Client) => read(sql`select ${1}::integer from generate_series(1, 5)`, 2, 2)],
    [
      'with an error in a later batch',
      (sql: Client) => read(sql`select 1 / (4 - i) from generate_series(1, 9) as i`, 2),
    ],
    [
      'with a row that cannot be read',
      (sql: Client) => read(sql`select ('unreadable' || i)::name from generate_series(1, 9) as i`, 2),
    ],
    [
      'that fails when it is committed',
      (sql: Client) => read(sql`insert into children (id, parent) values (1, 0) returning id`, 2),
    ],
  ])('%s leaves its connection in step', async (_what, run) => {
    const sql = connect();
    for (let i = 0; i < 3; i++) {
      const outcome = settle(run(sql));
      const seen = await others(sql);
      expect(seen).toEqual(theirs);
      await outcome;
      expect(await others(sql)).toEqual(theirs);
    }
  });
});
