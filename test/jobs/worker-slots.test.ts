import * as fc from 'fast-check';
import { describe, expect, test, onTestFinished } from 'vitest';
import { jobBatches } from '../../src/jobs/job-batches.ts';
import { sweepJobs } from '../../src/jobs/sweep-jobs.ts';
import { takeTurn, type JobBatch } from '../../src/jobs/turns.ts';
import { startWorkers } from '../../src/jobs/workers.ts';
import { FairSlots } from '../../src/limits/gate.ts';
import {
  releaseWorkerSlot,
  registerWorkerSlots,
  takeWorkerSlot,
  type WorkerSlot,
} from '../../src/queries/jobs/worker-slots.ts';
import { startApp } from '../setup/app.ts';
import { startServerProcess } from '../setup/server-process.ts';
import { begin, contextOf, echo, ended } from './working.ts';

const app = await startApp();
const context = contextOf(app);

/** Starts a worker with two slots for turns of the queue `verify`, which counts as a separate process. */
async function startWorker(slice: JobBatch): Promise<void> {
  const workers = await startWorkers(
    { ...context, url: app.url },
    { verify: { handle: takeTurn('verify', { ...jobBatches, verify_email: slice }), atOnce: 2 } },
  );
  onTestFinished(() => workers.stop());
}

const shown = async () =>
  (await app.owner`select kind, customer_id from worker_slots order by kind, process_id, number`).map((row) => ({
    ...row,
  }));

const take = (customerId: string, place: WorkerSlot) =>
  app.db.transaction((sql) => takeWorkerSlot(sql, customerId, place));
const give = (customerId: string, place: WorkerSlot) =>
  app.db.transaction((sql) => releaseWorkerSlot(sql, customerId, place));
const show = (places: WorkerSlot[]) => app.db.transaction((sql) => registerWorkerSlots(sql, places));

const placesOf = (kind: WorkerSlot['kind'], count: number): WorkerSlot[] => {
  const processId = crypto.randomUUID();
  return Array.from({ length: count }, (_, number) => ({ kind, processId, number }));
};

describe('the slots of two worker processes', () => {
  test('are shared: one customer alone gets half of them, another gets one at once, and all jobs complete', async () => {
    const [greedy, modest] = [await app.customer(), await app.customer()];
    const inFlight = new Map<string, number>();
    const most = new Map<string, number>();
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const slice: JobBatch = async (given, job, ...rest) => {
      const now = (inFlight.get(job.customer_id) ?? 0) + 1;
      inFlight.set(job.customer_id, now);
      most.set(job.customer_id, Math.max(now, most.get(job.customer_id) ?? 0));
      await opened;
      await echo()(given, job, ...rest);
      inFlight.set(job.customer_id, inFlight.get(job.customer_id)! - 1);
    };
    await startWorker(slice);
    await startWorker(slice);
    const jobs: string[] = [];
    for (let i = 0; i < 6; i += 1) {
      jobs.push(await begin(app, greedy, 5));
      // Each start enqueues a separate message, once the previous messages have been fetched.
      await expect
        .poll(
          async () =>
            (
              await app.owner`select from pgboss.job where name = 'verify' and state = 'created' and start_after <= now()`
            ).count,
          { timeout: 20_000, interval: 20 },
        )
        .toBe(0);
    }
    await expect.poll(() => inFlight.get(greedy.id), { timeout: 20_000 }).toBe(2);
    jobs.push(await begin(app, modest, 5));
    await expect.poll(() => inFlight.get(modest.id), { timeout: 20_000 }).toBe(1);
    open();
    for (const job of jobs) await ended(app, job);
    expect(Object.fromEntries(most)).toEqual({ [greedy.id]: 2, [modest.id]: 1 });
    await expect.poll(async () => (await shown()).filter((place) => place['customer_id'] !== null)).toEqual([]);
  });

  test('of a killed process no longer count, and those of a stopped process are deleted', async () => {
    const customer = crypto.randomUUID();
    const command = ['src/cli.ts', 'work', '--json'];
    const [killed, stopped] = [
      await startServerProcess(app.url, {}, command),
      await startServerProcess(app.url, {}, command),
    ];
    const places = async (kind: string) => (await shown()).filter((place) => place['kind'] === kind).length;
    expect(await places('unlock')).toBe(8);
    expect(await stopped.stop()).toBe(0);
    expect(await places('unlock')).toBe(4);
    await killed.stop('SIGKILL');

    const [mine, second] = placesOf('unlock', 2);
    expect(await take(customer, mine!)).toBe(true);
    expect(await take(customer, second!)).toBe(true); // the four slots of the dead process count as free
    await give(customer, second!);
    await app.owner`
      update worker_slots set seen_at = seen_at - interval '16 seconds' where process_id <> ${mine!.processId}`;
    expect(await take(customer, second!)).toBe(false);
    await app.owner`update worker_slots set seen_at = seen_at - interval '1 minute' where process_id <> ${mine!.processId}`;
    await sweepJobs(context, {});
    expect(await places('unlock')).toBe(2);
  });

  test('are shared by the same rule as slots within a process', async () => {
    const customers = ['a', 'b', 'c'].map((name) => [name, crypto.randomUUID()] as const);
    const step = fc.record({ customer: fc.constantFrom(...customers), takes: fc.boolean(), which: fc.nat() });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 25 }), async (count, steps) => {
        await app.owner`delete from worker_slots where kind = 'unlock'`;
        const free = [...placesOf('unlock', Math.ceil(count / 2)), ...placesOf('unlock', Math.floor(count / 2))];
        await show(free);
        const held: { place: WorkerSlot; customer: string }[] = [];
        const model = new FairSlots(count);
        const outcomes: { isTaken: boolean; shouldBe: boolean }[] = [];
        for (const {
          customer: [, customer],
          takes,
          which,
        } of steps) {
          if (takes && free.length > 0) {
            const place = free[which % free.length]!;
            const isTaken = await take(customer, place);
            outcomes.push({ isTaken, shouldBe: model.tryTake(customer) });
            if (!isTaken) continue;
            free.splice(free.indexOf(place), 1);
            held.push({ place, customer });
          } else if (!takes && held.length > 0) {
            const [gone] = held.splice(which % held.length, 1);
            await give(gone!.customer, gone!.place);
            model.release(gone!.customer);
            free.push(gone!.place);
          }
        }
        expect(outcomes.filter(({ isTaken, shouldBe }) => isTaken !== shouldBe)).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });

  test("are never taken beyond a customer's share, even by processes that take them at the same moment", async () => {
    await app.owner`delete from worker_slots where kind = 'unlock'`;
    const places = [...placesOf('unlock', 4), ...placesOf('unlock', 4)];
    await show(places);
    const customer = crypto.randomUUID();
    const taken = await Promise.all(places.map((place) => take(customer, place)));
    expect(taken.filter(Boolean)).toHaveLength(4);
  });
});
