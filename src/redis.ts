import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { Redis } from 'ioredis';

/** Longest wait for an answer (ms): whoever asks has 100 ms, and does something else in what is left. */
const answerMs = 75;
/** Longest wait for the first connection (ms). */
const openMs = 1_000;
/** Pause before a connection is made again (ms). */
const reconnectMs = 250;
/** A connection on which no answer came for so long (ms), its greeting included, is closed and made again. */
const silenceMs = 2_000;

/**
 * A Redis or Valkey server that may be down, frozen or read-only at any time. After the first command that fails or is not
 * answered in time, commands are not even tried until the connection has been made anew, so that nobody waits twice.
 */
export class RedisServer {
  readonly client: Redis;
  readonly #log: FastifyBaseLogger;
  readonly #purpose: string;
  /** Whether a connection was made, and no command has failed since. */
  #isUsable = false;
  #isWorking = true;
  /** Why there is no connection, as far as is known. */
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
   * Connects, and waits a second at most for it; goes on trying for as long as it takes.
   * @param purpose what the server is for, for the log
   */
  static async open(url: string, purpose: string, log: FastifyBaseLogger): Promise<RedisServer> {
    const server = new RedisServer(url, purpose, log);
    await Promise.race([server.client.connect().catch(() => undefined), sleep(openMs, undefined, { ref: false })]);
    return server;
  }

  /** Runs a command; returns undefined when it failed or the server does not answer, within 100 ms in any case. */
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

  /** The log has one line for each outage, however many commands fail. */
  #fail(reason: string): undefined {
    if (this.#isWorking) this.#log.warn({ reason }, `the server for ${this.#purpose} does not answer`);
    this.#isWorking = false;
    if (!this.#isUsable) return;
    this.#isUsable = false;
    this.client.disconnect(true);
  }
}

/**
 * Rejects when there is no answer in time. The verdict waits for the event loop to read its sockets once more: when this
 * process itself stood still, the answer has arrived and is only unread.
 */
function inTime<T>(answer: Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const timer = setTimeout(() => setImmediate(() => reject(new Error(`no answer in ${answerMs} ms`))), answerMs);
  answer.then(resolve, reject);
  return promise.finally(() => clearTimeout(timer));
}
