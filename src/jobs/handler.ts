import type { FastifyBaseLogger } from 'fastify';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../process/config.ts';
import type { Database } from '../database/db.ts';
import type { JobKind, TurnKind } from '../database/queues.ts';
import type { Verifier } from '../verification/verifier.ts';
import type { Message, Turn } from '../queries/records/turns.ts';

export interface JobContext {
  config: Config;
  db: Database;
  /** For work that reads the rows of all customers. */
  allCustomersDb: Database;
  catalog: Catalog;
  verifier: Verifier;
  log: FastifyBaseLogger;
  /** Aborts when the worker is asked to stop. A long job must then end early; its remaining work is done later. */
  stopping: AbortSignal;
  /** The message that is processed. Its signal aborts when the queue gives the message to another worker. */
  message?: Message & { signal: AbortSignal };
}

export type Payload<K extends JobKind> = K extends TurnKind ? Turn : Record<string, never>;

/** Processes one message. Must be idempotent: a message can be delivered again after an interruption. */
export type Handler<K extends JobKind> = (context: JobContext, data: Payload<K>) => Promise<void>;
