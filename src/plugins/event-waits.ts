import { plugin } from './plugin.ts';
import { serviceItself } from '../access/credentials.ts';
import { DomainError } from '../errors.ts';
import { openCursors, type FeedCursors, findCustomersWithNewEvents } from '../queries/records/feed.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Requests that wait for events. One regular query serves all of them, so a waiting request holds no database
     * connection.
     */
    eventWaits: EventWaits;
    feedCursors(): Promise<FeedCursors>;
  }
}

interface Wait {
  position: number;
  wake: () => void;
}

const maxWaits = 20;
const pollMs = 700;

type Poll = (waiting: ReadonlyMap<string, number>) => Promise<Iterable<string>>;

class EventWaits {
  readonly #waits = new Map<string, Set<Wait>>();
  readonly #poll: Poll;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(poll: Poll) {
    this.#poll = poll;
  }

  /**
   * Waits until the customer may have events after the position, the time is over, or the signal aborts.
   * @throws DomainError `rate_limited` if 20 requests of the customer are waiting
   */
  async wait(customerId: string, position: number, ms: number, signal: AbortSignal): Promise<void> {
    const waits = this.#waits.get(customerId) ?? new Set();
    if (waits.size >= maxWaits)
      throw new DomainError('rate_limited', `Not more than ${maxWaits} calls can wait for events`, { retryAfter: 1 });
    if (this.#isClosed || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const wait = { position, wake: resolve };
    const onAbort = (): void => resolve();
    const timer = setTimeout(onAbort, ms);
    signal.addEventListener('abort', onAbort);
    this.#waits.set(customerId, waits.add(wait));
    this.#timer ??= setTimeout(() => void this.#run(), pollMs);
    await promise;
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    waits.delete(wait);
    if (waits.size === 0) this.#waits.delete(customerId);
  }

  async #run(): Promise<void> {
    const waiting = new Map(
      [...this.#waits].map(([id, waits]) => [id, Math.min(...[...waits].map(({ position }) => position))]),
    );
    // While the database is unavailable, the requests wait on.
    const found = waiting.size === 0 ? [] : await this.#poll(waiting).catch(() => []);
    for (const id of found) for (const { wake } of this.#waits.get(id) ?? []) wake();
    this.#timer = this.#waits.size > 0 && !this.#isClosed ? setTimeout(() => void this.#run(), pollMs) : undefined;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const waits of this.#waits.values()) for (const { wake } of waits) wake();
  }
}

export default plugin({ name: 'event-waits', dependencies: ['services'] }, async (app) => {
  const waits = new EventWaits((waiting) => findCustomersWithNewEvents(app.db, waiting));
  app.decorate('eventWaits', waits);
  let cursors: Promise<FeedCursors> | undefined;
  app.decorate(
    'feedCursors',
    () =>
      (cursors ??= openCursors(app.db.for({ customerId: serviceItself }, null)).catch((error: unknown) => {
        cursors = undefined;
        throw error;
      })),
  );
  app.addHook('preClose', async () => waits.close());
});
