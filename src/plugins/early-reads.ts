import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { LRUCache } from 'lru-cache';
import { batchLookups } from '../batch-lookups.ts';
import type { Sql } from '../database/db.ts';
import { unlessAborted } from '../requester.ts';
import { formats } from '../schemas/formats.ts';

/** Returns the customer's records with these ids, in any order. Leaves out unknown ids. */
export type FindRecords<T extends Identified> = (sql: Sql, customerId: string, ids: string[]) => Promise<T[]>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Reads the record that the route returns. The route's handler gets the record from `request.record`. */
    record?: FindRecords<Identified>;
  }
  interface FastifyRequest {
    /**
     * Starts to read the route's record, if this process knows the customer of the API key. The key must be checked
     * before anything of the record is used.
     * @param keyName the hash of the API key
     */
    readEarly(keyName: string): void;
    /**
     * Returns the customer's record with the id of the path, or undefined if there is none. Returns what was read early,
     * if anything. Only handlers may call it: they run after all checks of the caller.
     * @param find the function that the route declares in `config.record`
     */
    record<T extends Identified>(find: FindRecords<T>): Promise<T | undefined>;
    /** What was read early for this request. */
    early: EarlyRead | undefined;
  }
}

interface Identified {
  id: string;
}

/** A record that is being read while the API key of its request is checked. */
interface EarlyRead {
  keyName: string;
  customerId?: string;
  record?: Promise<Identified | undefined>;
}

/** A customer, as the owner of an API key that was accepted before. */
interface Owner {
  customerId: string;
  /** Number of early reads since a request with this key was last accepted. */
  unused: number;
  /** Reads one record by its id. Reads of one round of the event loop share a statement. */
  readers: Map<FindRecords<Identified>, (id: string) => Promise<Identified | undefined>>;
}

/** Maximum number of API keys whose customers this process remembers (about 2 MB). */
const maxKeys = 10_000;
/** Maximum number of early reads for an API key without an accepted request. Then its requests wait for the check. */
const maxUnused = 64;
/** Maximum number of records that one statement reads. */
const maxRecords = 16;

/**
 * Lets routes that return one record read it while the API key is checked, instead of after the check. So a request
 * takes one round trip to the database. Requests with the same key that arrive together share a statement. The check
 * itself is not cached: a remembered customer id only tells whose record to read, and a key never changes its customer.
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
      if (!owner || owner.unused >= maxUnused || !formats['uuid']!(idOf(this))) return;
      owner.unused += 1;
      const record = readerOf(app, owner, find)(idOf(this));
      record.catch(() => undefined); // thrown where the record is used, if it is
      this.early = { keyName, customerId: owner.customerId, record };
    });
    app.decorateRequest('record', async function record<
      T extends Identified,
    >(this: FastifyRequest, find: FindRecords<T>) {
      const { caller, early, requester } = this;
      const { customerId } = caller;
      if (early) noteAccepted(owners, early.keyName, customerId);
      if (early?.record && early.customerId === customerId && this.routeOptions.config.record === find)
        return unlessAborted(early.record as Promise<T | undefined>, requester.signal);
      return (await this.db.lookup((sql) => find(sql, customerId, [idOf(this)])))[0];
    });
  },
  { name: 'early-reads', dependencies: ['services', 'requester'] },
);

const idOf = ({ params }: FastifyRequest): string => (params as { id: string }).id;

/** Remembers that a request with an API key was accepted, and the customer of the key. */
function noteAccepted(owners: LRUCache<string, Owner>, keyName: string, customerId: string): void {
  const owner = owners.get(keyName);
  if (owner) owner.unused = 0;
  else owners.set(keyName, { customerId, unused: 0, readers: new Map() });
}

/** Returns the function that reads records of one kind for the owner of a key, in the owner's share of the look-ups. */
function readerOf(app: FastifyInstance, { customerId, readers }: Owner, find: FindRecords<Identified>) {
  const known = readers.get(find);
  if (known) return known;
  const reader = batchLookups(
    (id: string) => id.toLowerCase(),
    (ids) => app.db.for({ customerId }).lookup((sql) => find(sql, customerId, ids)),
    (record) => record.id,
    maxRecords,
  );
  readers.set(find, reader);
  return reader;
}
