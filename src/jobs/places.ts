import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Database } from '../db.ts';
import type { JobKind } from '../queues.ts';
import {
  givePlace,
  removePlaces,
  showPlaces,
  signSeconds,
  takePlace,
  type WorkerPlace,
} from '../queries/worker-places.ts';
import { enqueueOnce, type TurnKind } from './queue.ts';

/** Seconds after which a customer whose share is used up is looked at again. */
const retrySeconds = 1;
/** Milliseconds between attempts to give a place back. */
const giveAgainMs = 1_000;

/** What the places of a process need. */
export interface PlacesContext {
  db: Database;
  log: FastifyBaseLogger;
  /** Set when the process is asked to stop. */
  stopping: AbortSignal;
}

/** The places for jobs of this process. They are shared between customers together with those of all other processes. */
export class ProcessPlaces {
  readonly #context: PlacesContext;
  readonly #processId = crypto.randomUUID();
  readonly #places: WorkerPlace[];
  #signs: NodeJS.Timeout | undefined;

  /** @param atOnce how many places there are for each kind of job */
  constructor(context: PlacesContext, atOnce: readonly [kind: JobKind, places: number][]) {
    this.#context = context;
    this.#places = atOnce.flatMap(([kind, places]) =>
      Array.from({ length: places }, (_, number) => ({ kind, processId: this.#processId, number })),
    );
  }

  /** Shows the places to all other processes, from now on until `close`. */
  async open(): Promise<void> {
    const { db, log } = this.#context;
    const show = () => db.transaction((sql) => showPlaces(sql, this.#places));
    await show();
    this.#signs = setInterval(() => {
      show().catch((err: unknown) => log.warn({ err }, 'the places of this worker were not shown'));
    }, signSeconds * 1000);
  }

  /** Takes the places away. No work may be in them any more. */
  async close(): Promise<void> {
    if (!this.#signs) return;
    clearInterval(this.#signs);
    const { db, log } = this.#context;
    await db
      .transaction((sql) => removePlaces(sql, this.#processId))
      .catch((err: unknown) => log.warn({ err }, 'the places of this worker were not removed'));
  }

  /** Does a turn of a customer in a place. If the customer's share does not admit that now, enqueues the turn for later. */
  async run(kind: TurnKind, number: number, customerId: string, turn: () => Promise<void>): Promise<void> {
    const place = { kind, processId: this.#processId, number };
    const isTaken = await this.#context.db.transaction(async (sql) => {
      if (await takePlace(sql, customerId, place)) return true;
      // A key of its own, so that it does not keep a turn from being taken sooner.
      const singletonKey = `${customerId} share`;
      await enqueueOnce(sql, kind, { customerId }, { singletonKey, startAfter: retrySeconds });
      return false;
    });
    if (!isTaken) return;
    try {
      await turn();
    } finally {
      await this.#give(place, customerId);
    }
  }

  /** A place that nobody works in must not count as held, so this is tried until it succeeds or the process stops. */
  async #give(place: WorkerPlace, customerId: string): Promise<void> {
    const { db, log, stopping } = this.#context;
    for (;;) {
      try {
        return await db.transaction((sql) => givePlace(sql, customerId, place));
      } catch (err) {
        log.warn({ err, place }, 'a place was not given back');
        if (stopping.aborted) return;
        await sleep(giveAgainMs);
      }
    }
  }
}
