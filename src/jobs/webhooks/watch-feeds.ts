import { setTimeout as sleep } from 'node:timers/promises';
import type { SharedDatabase } from '../../database/db.ts';
import { retryLevel } from '../../database/outages.ts';
import { enqueueTurns } from '../../queries/records/turns.ts';
import { findLongestWaiting } from '../../queries/webhooks/due.ts';
import type { JobContext } from '../handler.ts';
import type { Standing } from './delivery-slots.ts';

/** Time between two looks (ms). */
const intervalMs = 500;

/** Customers of one look. */
const mostCustomers = 1_000;

export interface FeedWatch {
  /** Resolves when nothing is under way. */
  stop(): Promise<void>;
}

interface Watching extends Pick<JobContext, 'log' | 'webhooks'> {
  db: SharedDatabase;
}

/**
 * Looks twice a second which endpoints have something to get, and enqueues a turn for each of their customers. Writers
 * enqueue none: a customer's only message, and the notification of it, would make all its writers wait for each other.
 */
export function watchFeeds(context: Watching): FeedWatch {
  const ending = new AbortController();
  const ended = watch(context, ending.signal);
  return {
    stop: () => {
      ending.abort();
      return ended;
    },
  };
}

async function watch(context: Watching, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await look(context).catch((err: unknown) =>
      context.log[retryLevel(err)]({ err }, 'the feeds of webhooks could not be looked at; retrying'),
    );
    await sleep(intervalMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

async function look({ db, webhooks }: Watching): Promise<void> {
  if (!webhooks.box) return;
  const find = (standing: Standing): Promise<string[]> => {
    // No more turns than there are slots: the others would come in vain, twice a second.
    const limit = Math.min(mostCustomers, webhooks.slots.freeFor(standing));
    return limit <= 0 ? Promise.resolve([]) : findLongestWaiting(db, standing, limit);
  };
  const found = [await find('working'), await find('new'), await find('failing')].flat();
  const customers = [...new Set(found)];
  if (customers.length > 0) await db.transaction((sql) => enqueueTurns(sql, 'webhooks', customers));
}
