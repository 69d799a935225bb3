import type { FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { LRUCache } from 'lru-cache';
import type { Sql } from '../database/db.ts';
import { formats } from '../schemas/formats.ts';

/** Reads a customer's record by its id. Returns undefined if the customer has no such record. */
export type FindRecord<T> = (sql: Sql, customerId: string, id: string) => Promise<T | undefined>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Reads the record that the route returns. The route's handler gets the record from `request.record`. */
    record?: FindRecord<object>;
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
    record<T extends object>(find: FindRecord<T>): Promise<T | undefined>;
    /** What was read early for this request. */
    early: EarlyRead | undefined;
  }
}

/** A record that is being read while the API key of its request is checked. */
interface EarlyRead {
  keyName: string;
  customerId?: string;
  record?: Promise<object | undefined>;
}

/** A customer, as the owner of an API key that was accepted before. */
interface Owner {
  customerId: string;
  /** Number of early reads since a request with this key was last accepted. */
  unused: number;
}

/** Maximum number of API keys whose customers this process remembers (about 2 MB). */
const maxKeys = 10_000;
/** Maximum number of early reads for an API key without an accepted request. Then its requests wait for the check. */
const maxUnused = 64;

/**
 * Lets routes that return one record read it while the API key is checked, instead of after the check. So a request
 * takes one round trip to the database. The check itself is not cached: a cached customer id only tells whose record
 * to read, and a key never changes its customer.
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
      const { customerId } = owner;
      const record = app.db.for({ ...this.requester, customerId }).lookup((sql) => find(sql, customerId, idOf(this)));
      record.catch(() => undefined); // thrown where the record is used, if it is
      this.early = { keyName, customerId, record };
    });
    app.decorateRequest('record', async function record<T extends object>(this: FastifyRequest, find: FindRecord<T>) {
      const { customerId } = this.caller;
      if (this.early) owners.set(this.early.keyName, { customerId, unused: 0 });
      const isEarly = this.early?.customerId === customerId && this.routeOptions.config.record === find;
      if (isEarly) return this.early!.record as Promise<T | undefined>;
      return this.db.lookup((sql) => find(sql, customerId, idOf(this)));
    });
  },
  { name: 'early-reads', dependencies: ['services', 'requester'] },
);

const idOf = ({ params }: FastifyRequest): string => (params as { id: string }).id;
