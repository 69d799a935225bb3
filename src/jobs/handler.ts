import type { FastifyBaseLogger } from 'fastify';
import type { Catalog } from '../catalog/catalog.ts';
import type { Config } from '../config.ts';
import type { Database } from '../db.ts';
import type { JobKind } from '../queues.ts';
import type { Verifier } from '../verification/verifier.ts';
import type { Jobs } from './queue.ts';

/** What a job works with. */
export interface JobContext {
  config: Config;
  db: Database;
  catalog: Catalog;
  verifier: Verifier;
  log: FastifyBaseLogger;
  /** Set when the worker is asked to stop: a long job leaves the rest to another one. */
  stopping: AbortSignal;
  /** Slices that go on though their turn is over. The worker waits for them before it ends. None of them rejects. */
  background: Set<Promise<void>>;
}

/** Does a job. May be called again for a job that it was interrupted in, or has done. */
export type Handler<K extends JobKind> = (context: JobContext, data: Jobs[K]) => Promise<void>;
