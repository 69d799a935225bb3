import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { Redis } from 'ioredis';

/** Timeout of one command (ms). Callers have 100 ms in total, so there is time for their fallback. */
const answerMs = 75;
/** Maximum wait for the first connection (ms). */
const openMs = 1_000;
/** Delay before a reconnect (ms). */
const reconnectMs = 250;
/** A connection without a response for this long (ms), its handshake included, is closed and reopened. */
const silenceMs = 2_000;

/**
 * Client of a Redis or Valkey server that may be down, frozen or read-only at any time. After the first command that
 * fails or times out, commands fail at once until a new connection is ready, so callers do not wait again.
 */
export class RedisServer {
  readonly client: Redis;
  readonly #log: FastifyBaseLogger;
  readonly #purpose: string;
  /** Whether the connection is ready and no command has failed on it. */
  #isUsable = false;
  #isWorking = true;
  /** Last known reason why there is no connection. */
  #connectionFault = 'no connection yet';

  private constructor(url: string, purpose: string, log: FastifyBaseLogger) {
    this.#log = log;
    this.#purpose = purpose;
    this.client = new Redis(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      connectTimeout: silenceMs,
      socketTimeout: silenceMs,
      retryStrategy: () => reconnectMs,
    });
    this.client.on('ready', () => {
      this.#isUsable = true;
      this.#connectionFault = 'the connection was closed';
    });
    this.client.on('close', () => (this.#isUsable = false));
    this.client.on('error', ({ message }) => (this.#connectionFault = message));
  }

  /**
   * Connects to a server. Waits at most one second, then keeps trying in the background.
   * @param purpose what the server is used for; stands in log lines
   */
  static async open(url: string, purpose: string, log: FastifyBaseLogger): Promise<RedisServer> {
    const server = new RedisServer(url, purpose, log);
    await Promise.race([server.client.connect().catch(() => undefined), sleep(openMs, undefined, { ref: false })]);
    return server;
  }

  /** Runs a command. Returns undefined within 100 ms if it fails or times out. */
  async ask<T extends object>(command: () => Promise<T>): Promise<T | undefined> {
    if (!this.#isUsable) return this.#fail(this.#connectionFault);
    try {
      const answer = await inTime(command());
      if (!this.#isWorking) this.#log.info(`the server for ${this.#purpose} answers again`);
      this.#isWorking = true;
      return answer;
    } catch (error) {
      return this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  close(): void {
    this.client.disconnect();
  }

  /** Logs the failure once per outage, however many commands fail, and starts a reconnect. */
  #fail(reason: string): undefined {
    if (this.#isWorking) this.#log.warn({ reason }, `the server for ${this.#purpose} does not answer`);
    this.#isWorking = false;
    if (!this.#isUsable) return;
    this.#isUsable = false;
    this.client.disconnect(true);
  }
}

/**
 * Rejects when an answer does not arrive in time. The timeout waits one more event loop round before it rejects: if
 * this process itself was stalled, the answer has arrived and is only unread.
 */
function inTime<T>(answer: Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const timer = setTimeout(() => setImmediate(() => reject(new Error(`no answer in ${answerMs} ms`))), answerMs);
  answer.then(resolve, reject);
  return promise.finally(() => clearTimeout(timer));
}
