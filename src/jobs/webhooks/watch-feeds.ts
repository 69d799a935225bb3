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

/** Customers with new endpoints, and with failing ones, whose turns are as urgent as those of endpoints that work. */
const fewUrgent = 2;

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
  const [working, fresh, failing] = [await find('working'), await find('new'), await find('failing')];
  const customers = [...new Set([...working, ...fresh, ...failing])];
  // Endpoints that work do not wait for the turns of many dead ones. Nor do a few of the others wait for all that work.
  const urgent = new Set([...working, ...fresh.slice(0, fewUrgent), ...failing.slice(0, fewUrgent)]);
  if (customers.length > 0) await db.transaction((sql) => enqueueTurns(sql, 'webhooks', customers, urgent));
}
