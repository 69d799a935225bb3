import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { Redis } from 'ioredis';

// Callers wait 100 ms at most, so some time is left for their fallback.
/** Maximum time to wait for the result of one Redis command (ms). */
const answerMs = 75;
/** Maximum time that the service, when it starts, waits for the connection to Redis (ms). */
const openMs = 1_000;
const reconnectMs = 250;
/**
 * Maximum time that a connection to Redis receives no data while a response is expected (ms). After this time the
 * client closes the connection and opens a new one.
 */
const silenceMs = 2_000;

/**
 * A client for a Redis or Valkey server, which may fail at any time. After a command has failed or timed out, all
 * further commands fail at once until a new connection is open. So an unavailable server does not delay requests.
 */
export class RedisServer {
  readonly client: Redis;
  readonly #log: FastifyBaseLogger;
  readonly #purpose: string;
  /** True if the connection to Redis is open and no command has failed on this connection. */
  #isUsable = false;
  #isWorking = true;
  /** Message of the last connection error, or another text that explains why no connection to Redis is open. */
  #connectionFault = 'no connection yet';

  private constructor(client: Redis, purpose: string, log: FastifyBaseLogger) {
    this.#log = log;
    this.#purpose = purpose;
    this.client = client;
    this.client.on('ready', () => {
      this.#isUsable = true;
      this.#connectionFault = 'the connection was closed';
    });
    this.client.on('close', () => (this.#isUsable = false));
    this.client.on('error', ({ message }) => (this.#connectionFault = message));
  }

  /**
   * Connects to a Redis server. Waits up to one second for the connection. If this time is too short, connecting
   * continues in the background.
   * @param purpose What the server is used for, such as `rate limits`. The text appears in log lines.
   */
  static async open(url: string, purpose: string, log: FastifyBaseLogger): Promise<RedisServer> {
    const { Redis } = await import('ioredis'); // few installations use it
    const client = new Redis(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      connectTimeout: silenceMs,
      socketTimeout: silenceMs,
      retryStrategy: () => reconnectMs,
    });
    const server = new RedisServer(client, purpose, log);
    await Promise.race([server.client.connect().catch(() => undefined), sleep(openMs, undefined, { ref: false })]);
    return server;
  }

  /** Runs a Redis command. Returns undefined if the command fails or takes longer than `answerMs`. */
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

  /**
   * Handles a failed command: closes the connection and opens a new one. Logs the reason once per outage, not once per
   * command.
   */
  #fail(reason: string): undefined {
    if (this.#isWorking) this.#log.warn({ reason }, `the server for ${this.#purpose} does not answer`);
    this.#isWorking = false;
    if (!this.#isUsable) return;
    this.#isUsable = false;
    this.client.disconnect(true);
  }
}

/** Waits for the result of a Redis command. Rejects if the result does not arrive within `answerMs`. */
function inTime<T>(answer: Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  // After the timeout it waits one more round of the event loop: if this process was stalled, the answer may have
  // arrived unread.
  const timer = setTimeout(() => setImmediate(() => reject(new Error(`no answer in ${answerMs} ms`))), answerMs);
  answer.then(resolve, reject);
  return promise.finally(() => clearTimeout(timer));
}
