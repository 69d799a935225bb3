import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Database } from '../database/db.ts';
import { retryLevel } from '../database/outages.ts';
import { heartbeatSeconds, type JobKind, type TurnKind } from '../database/queues.ts';
import {
  releaseWorkerSlot,
  deleteWorkerSlots,
  registerWorkerSlots,
  takeWorkerSlot,
  type WorkerSlot,
} from '../queries/jobs/worker-slots.ts';
import { sendTurn } from '../queries/records/turns.ts';

/** Delay before a customer who uses its share of the slots is tried again. */
const retrySeconds = 1;
const releaseRetryMs = 1_000;

interface WorkerSlotsContext {
  db: Database;
  log: FastifyBaseLogger;
  stopping: AbortSignal;
}

/**
 * This process's slots, of which each turn takes one. The slots of all processes are shared fairly between customers.
 */
export class WorkerSlots {
  readonly #context: WorkerSlotsContext;
  readonly #processId = crypto.randomUUID();
  readonly #slots: WorkerSlot[];
  #heartbeat: NodeJS.Timeout | undefined;

  constructor(context: WorkerSlotsContext, atOnce: readonly [kind: JobKind, slots: number][]) {
    this.#context = context;
    this.#slots = atOnce.flatMap(([kind, slots]) =>
      Array.from({ length: slots }, (_, number) => ({ kind, processId: this.#processId, number })),
    );
  }

  /**
   * Registers the slots, and renews that until `close`. Each customer's share is computed from the slots of all
   * processes.
   */
  async open(): Promise<void> {
    const { db, log } = this.#context;
    const register = () => db.transaction((sql) => registerWorkerSlots(sql, this.#slots));
    await register();
    this.#heartbeat = setInterval(() => {
      register().catch((err: unknown) =>
        log[retryLevel(err)]({ err }, "this worker's slots could not be registered; retrying"),
      );
    }, heartbeatSeconds * 1000);
  }

  /** Call this only after all turns of the process have ended. Batches in the background have no slot. */
  async close(): Promise<void> {
    if (!this.#heartbeat) return;
    clearInterval(this.#heartbeat);
    const { db, log } = this.#context;
    await db
      .transaction((sql) => deleteWorkerSlots(sql, this.#processId))
      .catch((err: unknown) => log.warn({ err }, "this worker's slots could not be removed; the sweep removes them"));
  }

  /** Runs a turn in a slot. If the customer already uses its share, enqueues the work for later instead. */
  async run(kind: TurnKind, number: number, customerId: string, turn: () => Promise<void>): Promise<void> {
    const slot = { kind, processId: this.#processId, number };
    const isTaken = await this.#context.db.transaction(async (sql) => {
      if (await takeWorkerSlot(sql, customerId, slot)) return true;
      await sendTurn(sql, kind, customerId, { name: 'share', seconds: retrySeconds });
      return false;
    });
    if (!isTaken) return;
    try {
      await turn();
    } finally {
      await this.#release(slot, customerId);
    }
  }

  /** Retries until the slot is free or the process stops, so that a free slot does not count as taken. */
  async #release(slot: WorkerSlot, customerId: string): Promise<void> {
    const { db, log, stopping } = this.#context;
    for (;;) {
      try {
        return await db.transaction((sql) => releaseWorkerSlot(sql, customerId, slot));
      } catch (err) {
        log[retryLevel(err)]({ err, slot }, 'a worker slot could not be released yet');
        if (stopping.aborted) return;
        await sleep(releaseRetryMs);
      }
    }
  }
}
