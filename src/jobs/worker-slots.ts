import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Database } from '../database/db.ts';
import type { JobKind } from '../database/queues.ts';
import {
  releaseWorkerSlot,
  deleteWorkerSlots,
  registerWorkerSlots,
  heartbeatSeconds,
  takeWorkerSlot,
  type WorkerSlot,
} from '../queries/worker-slots.ts';
import { enqueueOnce, type TurnKind } from './enqueue.ts';

/** Seconds until the next attempt for a customer whose share of the worker slots is used up. */
const retrySeconds = 1;
/** Milliseconds between attempts to release a slot. */
const releaseRetryMs = 1_000;

/** The services that `WorkerSlots` uses. */
export interface WorkerSlotsContext {
  db: Database;
  log: FastifyBaseLogger;
  /** Aborted when the process is asked to stop. */
  stopping: AbortSignal;
}

/**
 * The worker slots of this process, in which its jobs run. All processes together share their slots fairly between
 * customers.
 */
export class WorkerSlots {
  readonly #context: WorkerSlotsContext;
  readonly #processId = crypto.randomUUID();
  readonly #slots: WorkerSlot[];
  #signs: NodeJS.Timeout | undefined;

  /** @param atOnce number of slots for each kind of job */
  constructor(context: WorkerSlotsContext, atOnce: readonly [kind: JobKind, slots: number][]) {
    this.#context = context;
    this.#slots = atOnce.flatMap(([kind, slots]) =>
      Array.from({ length: slots }, (_, number) => ({ kind, processId: this.#processId, number })),
    );
  }

  /** Registers the slots in the database, so that all processes count them. Renews the registration until `close`. */
  async open(): Promise<void> {
    const { db, log } = this.#context;
    const show = () => db.transaction((sql) => registerWorkerSlots(sql, this.#slots));
    await show();
    this.#signs = setInterval(() => {
      show().catch((err: unknown) => log.warn({ err }, "this worker's slots could not be registered; retrying"));
    }, heartbeatSeconds * 1000);
  }

  /** Removes the slots from the database. Call this only when no job runs in them any more. */
  async close(): Promise<void> {
    if (!this.#signs) return;
    clearInterval(this.#signs);
    const { db, log } = this.#context;
    await db
      .transaction((sql) => deleteWorkerSlots(sql, this.#processId))
      .catch((err: unknown) => log.warn({ err }, "this worker's slots could not be removed; the sweep removes them"));
  }

  /**
   * Runs a customer's turn in a slot. If the customer has used up its share of slots, enqueues the turn again for
   * later.
   */
  async run(kind: TurnKind, number: number, customerId: string, turn: () => Promise<void>): Promise<void> {
    const slot = { kind, processId: this.#processId, number };
    const isTaken = await this.#context.db.transaction(async (sql) => {
      if (await takeWorkerSlot(sql, customerId, slot)) return true;
      // A separate key, so that this delayed turn does not block an immediate one.
      const singletonKey = `${customerId} share`;
      await enqueueOnce(sql, kind, { customerId }, { singletonKey, startAfter: retrySeconds });
      return false;
    });
    if (!isTaken) return;
    try {
      await turn();
    } finally {
      await this.#give(slot, customerId);
    }
  }

  /**
   * Releases a slot. Retries until that succeeds or the process stops, because an unused slot must not count as held.
   */
  async #give(slot: WorkerSlot, customerId: string): Promise<void> {
    const { db, log, stopping } = this.#context;
    for (;;) {
      try {
        return await db.transaction((sql) => releaseWorkerSlot(sql, customerId, slot));
      } catch (err) {
        log.warn({ err, slot }, 'a worker slot could not be released yet');
        if (stopping.aborted) return;
        await sleep(releaseRetryMs);
      }
    }
  }
}
