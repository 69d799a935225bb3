import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { LRUCache } from 'lru-cache';
import { batchLookups } from '../database/batch-lookups.ts';
import type { Sql } from '../database/db.ts';
import { unlessAborted } from '../credentials/requester.ts';
import { canonicalId } from '../text/ids.ts';

/** Reads the customer's records with the given ids. Returns them in any order, without unknown ids. */
export type FindRecords = (sql: Sql, customerId: string, ids: string[]) => Promise<Identified[]>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The function that reads the record which the route returns. The route's handler gets the record from
     * `request.record`.
     */
    record?: FindRecords;
  }
  interface FastifyRequest {
    /**
     * Starts to read the record of the route before the API key is checked. Does nothing if this process has not cached
     * the customer of the API key. The record must not be used before the key has been checked.
     * @param keyName The hash of the API key.
     */
    readEarly(keyName: string): void;
    /**
     * Returns the customer's record whose id is in the path, or undefined if there is no such record. Uses the record
     * that `readEarly` has read, if any. Only route handlers may call this function, because they run after
     * authentication.
     */
    record(): Promise<Identified | undefined>;
    early: EarlyRead | undefined;
  }
}

interface Identified {
  id: string;
}

interface EarlyRead {
  keyName: string;
  customerId?: string;
  record?: Promise<Identified | undefined>;
}

interface Owner {
  customerId: string;
  /**
   * Number of records that were read early (before the key check) since the last accepted request with this API key.
   */
  unused: number;
  /**
   * For each kind of record, the function that reads one record by id. Reads that start together share one statement.
   */
  readers: Map<FindRecords, (id: string) => Promise<Identified | undefined>>;
}

/** Maximum number of API keys whose customers this process caches. The cache needs about 2 MB. */
const maxKeys = 10_000;
/**
 * Maximum number of early reads (before the key check) for an API key since its last accepted request. After that,
 * records are read only after the key check.
 */
const maxUnused = 64;
/** Maximum number of records that one SQL statement reads. */
const maxRecords = 16;

// The key is still checked for every request. The cache cannot be stale, because a key never changes its customer.
/**
 * Fastify plugin for routes that return one record. It reads the record while the API key is still being checked, so
 * that the request waits for the database only once. For this it remembers which customer each API key belongs to. The
 * records for requests that arrive together with the same key are read by one SQL statement.
 */
export default fp(
  async (app) => {
    const owners = new LRUCache<string, Owner>({ max: maxKeys });
    app.decorateRequest('early');
    app.decorateRequest('readEarly', function readEarly(this: FastifyRequest, keyName) {
      const find = this.routeOptions.config.record;
      if (!find) return;
      this.early = { keyName };
      const owner = owners.get(keyName);
      const id = canonicalId(idOf(this)); // the path is not validated yet
      if (!owner || owner.unused >= maxUnused || id === undefined) return;
      owner.unused += 1;
      const record = readerOf(app, owner, find)(id);
      record.catch(() => undefined); // thrown where the record is used, if it is
      this.early = { keyName, customerId: owner.customerId, record };
    });
    app.decorateRequest('record', async function record(this: FastifyRequest) {
      const { caller, early, requester } = this;
      const { customerId } = caller;
      if (early) noteAccepted(owners, early.keyName, customerId);
      if (early?.record && early.customerId === customerId) return unlessAborted(early.record, requester.signal);
      const find = this.routeOptions.config.record!;
      return (await this.db.lookup((sql) => find(sql, customerId, [idOf(this)])))[0];
    });
  },
  { name: 'early-reads', dependencies: ['services', 'requester'] },
);

const idOf = ({ params }: FastifyRequest): string => (params as { id: string }).id;

function noteAccepted(owners: LRUCache<string, Owner>, keyName: string, customerId: string): void {
  const owner = owners.get(keyName);
  if (owner) owner.unused = 0;
  else owners.set(keyName, { customerId, unused: 0, readers: new Map() });
}

function readerOf(app: FastifyInstance, { customerId, readers }: Owner, find: FindRecords) {
  const known = readers.get(find);
  if (known) return known;
  const reader = batchLookups(
    (id: string) => id,
    (ids) => app.db.for({ customerId }, null).lookup((sql) => find(sql, customerId, ids)),
    (record) => record.id,
    maxRecords,
  );
  readers.set(find, reader);
  return reader;
}
