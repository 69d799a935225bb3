import { beforeAll, describe, expect, test } from 'vitest';
import { seeded } from '../../src/commands/generate-people.ts';
import { runAlone } from '../setup/alone.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { makeUser } from '../setup/factories.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';
import { Caller, type Customer } from './caller.ts';
import type { Journal } from './client.ts';
import { compare, compareStored } from './compare.ts';
import { operations, startLarge } from './operations.ts';
import { stopSometimes } from './stops.ts';
import { seed } from '../setup/seed.ts';

runAlone();

// Model test. Callers of two customers send random operations to two servers. Each caller has records of its own, and
// a model of them in memory; rules, counters, locks and imports are the customer's. Then everything that can be read is
// compared with the models. `make model` runs it for longer.
const seconds = Number(process.env['MODEL_SECONDS'] ?? 20);

/** Number of operations after which a run ends earlier, and number that a run has in any case. */
const enough = { most: seconds * 50, least: 200 };

/** Number of times that everything is compared. */
const rounds = Math.max(2, Math.round(seconds / 60));

describe(`random operations (SEED=${seed})`, () => {
  let app: TestApp;
  let processes: ServerProcess[];
  let customers: Customer[];
  const journal: Journal = { requests: 0, unavailable: [] };
  const done: Record<string, number> = {};

  beforeAll(async () => {
    app = await startApp();
    const start = (verb: string) => startServerProcess(app.url, { LOG_LEVEL: 'error' }, ['src/cli.ts', verb, '--json']);
    processes = await Promise.all(['serve', 'serve', 'work'].map(start));
    customers = await Promise.all([furnish('l', 1_500), furnish('s', 400)]);
  });

  /** Creates a customer with three callers. */
  async function furnish(letter: string, maxContacts: number): Promise<Customer> {
    const made = await app.customer();
    const users = [made.adminId, await makeUser(app.fastify, made.id)];
    const customer: Customer = {
      id: made.id,
      key: made.key,
      users,
      shared: new Map(),
      callers: [],
      maxContacts,
    };
    const foreign = () => idsOf(customers.find((other) => other !== customer)!);
    for (const n of [1, 2, 3]) {
      const random = seeded(seed * 6 + letter.charCodeAt(0) * 3 + n);
      customer.callers.push(
        new Caller(customer, { tag: `${letter}${n}x`, random, servers: processes.slice(0, 2), journal, foreign }),
      );
    }
    return customer;
  }

  test(
    `of six callers for ${seconds} s: everything that can be read is as in the model`,
    async () => {
      await Promise.all(customers[0]!.callers.map((caller) => startLarge(caller)));
      for (let round = 1; round <= rounds; round += 1) {
        await liveThrough(seconds / rounds, (enough.most * round) / rounds);
        for (const customer of customers) await compare(customer, seed + round);
      }
      for (const customer of customers) await compareStored(app.owner, customer);
      const [database] = await app.owner<{ deadlocks: number }[]>`
        select deadlocks::integer from pg_stat_database where datname = current_database()`;
      const { unavailable, ...counts } = journal;
      process.stdout.write(
        `model: ${JSON.stringify({ seed, ...counts, unavailable: unavailable.length, ...done, undos: sumOf(customers), contacts: customers.map(sizeOf) })}\n`,
      );
      expect(unavailable.length, unavailable.slice(0, 3).join('\n')).toBeLessThan(counts.requests / 100);
      expect(database!.deadlocks, `deadlocks: ${unavailable.slice(0, 3).join('\n')}`).toBe(0);
      expect(processes.flatMap(({ log }) => log)).toEqual([]);
    },
    (30 * seconds + 600) * 1_000,
  );

  /** Lets all callers work, until the time is over or there were enough operations. */
  async function liveThrough(time: number, most: number): Promise<void> {
    const stopping = new AbortController();
    const end = performance.now() + time * 1_000;
    const isOver = () => count() >= most || (performance.now() >= end && count() >= Math.min(enough.least, most));
    const work = async (caller: Caller) => {
      while (!isOver() && !stopping.signal.aborted) {
        const [name, operation] = caller.random.pick(operations);
        if (name === 'undo') await operation(caller);
        else await caller.changes.remembering(operation, name.startsWith('merge'));
        done[name] = (done[name] ?? 0) + 1;
      }
    };
    const disturbing = [stopSometimes(app.owner, seeded(seed + 1), stopping.signal)];
    // If one caller finds a difference, the others stop.
    const differences: unknown[] = [];
    const note = (error: unknown) => {
      differences.push(error);
      stopping.abort();
    };
    await Promise.all(customers.flatMap(({ callers }) => callers.map((caller) => work(caller).catch(note))));
    stopping.abort();
    await Promise.all(disturbing);
    if (differences.length > 0) throw differences[0];
  }

  const count = (): number => Object.values(done).reduce((sum, one) => sum + one, 0);
});

/** What the undos of all callers have done. */
const sumOf = (customers: Customer[]): Record<string, number> => {
  const sums: Record<string, number> = {};
  for (const { changes } of customers.flatMap(({ callers }) => callers))
    for (const [name, number] of Object.entries(changes.done)) sums[name] = (sums[name] ?? 0) + number;
  return sums;
};

const sizeOf = ({ callers }: Customer): number => callers.reduce((sum, { model }) => sum + model.contacts.size, 0);

const idsOf = ({ callers }: Customer): string[] =>
  callers.flatMap(({ model }) => [...model.contacts].slice(0, 3).map(({ id }) => id!));
