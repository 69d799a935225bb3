import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import fp from 'fastify-plugin';
import type { Config } from '../config.ts';
import { ConnectionSlots, type Holder } from '../limits/connection-slots.ts';
import { addressGroup } from '../network/address-group.ts';
import { isWithin, normaliseAddress, parseRanges, type AddressRanges } from '../network/ip-addresses.ts';
import { readUnacknowledged, writeProgress, type Unacknowledged } from '../network/socket-progress.ts';

/** An open network connection of a caller. */
interface Connection extends Holder {
  socket: Socket;
  /** The request that is being handled on this connection, if any. */
  request: IncomingMessage | undefined;
  /** Requests that wait for earlier requests of this connection, in order. Calling a function starts its request. */
  waiting: (() => void)[];
  /** What the caller still had to send or read at the last check, as text from `owedBy`. */
  owed: string | undefined;
  silentChecks: number;
}

/** Maximum number of requests that wait on one connection. Each takes some kilobytes of memory. */
const maxWaiting = 32;
/** How many checks for silent connections run within `CONNECTION_SILENCE_MS`. */
const checks = 8;

/**
 * Limits the resources that network connections use. At most `MAX_CONNECTIONS` are open, shared fairly between IP
 * addresses. The requests of one connection are handled one after the other, and nothing is read from it while a
 * request waits. So at most one of its responses is in memory.
 *
 * A connection is closed if the caller must send or read data and transfers no byte for `CONNECTION_SILENCE_MS`. The
 * time that the service itself needs does not count.
 */
export default fp(
  async (app) => {
    const connections = new Connections(app.config);
    const watch = async (): Promise<void> => {
      const closed = await connections.check();
      if (Object.values(closed).some((count) => count > 0)) app.log.warn(closed, 'connections closed');
    };
    const timer = setInterval(() => void watch(), app.config.CONNECTION_SILENCE_MS / checks).unref();
    app.addHook('onClose', async () => clearInterval(timer));
    app.server.on('connection', (socket) => connections.accept(socket));
    app.addHook('onRequest', (request, reply, done) => {
      if (request.raw.socket instanceof Socket) connections.waitForTurn(request.raw, reply.raw, done);
      else done(); // a test injected the request without a socket
    });
  },
  { name: 'connections', dependencies: ['services'] },
);

class Connections {
  readonly #slots: ConnectionSlots<Connection>;
  readonly #proxies: AddressRanges;
  readonly #open = new Map<Socket, Connection>();
  #closed = { refused: 0, evicted: 0, silent: 0 };

  constructor({ MAX_CONNECTIONS, TRUST_PROXY }: Config) {
    this.#slots = new ConnectionSlots(MAX_CONNECTIONS);
    this.#proxies = parseRanges(TRUST_PROXY ?? '').ranges;
  }

  /**
   * Admits a new connection, or closes it if too many are open. May close an idle connection instead, so that the new
   * one fits in.
   */
  accept(socket: Socket): Connection | undefined {
    const connection = newConnection(socket, this.#groupOf(socket.remoteAddress));
    const { admitted, evicted } = this.#slots.admit(connection);
    if (evicted) {
      this.#closed.evicted += 1;
      this.#open.delete(evicted.socket);
      evicted.socket.destroy();
    }
    if (!admitted) {
      this.#closed.refused += 1;
      return void socket.destroy();
    }
    this.#open.set(socket, connection);
    // Node resumes a socket after a response was sent or when a body is read; while requests wait it stays paused.
    socket.on('resume', () => connection.waiting.length > 0 && socket.pause());
    socket.once('close', () => this.#open.delete(socket) && this.#slots.release(connection));
    return connection;
  }

  /**
   * Returns the group whose connections are limited together: the caller's IP address, or the /64 prefix of an IPv6
   * address. Returns undefined for a trusted proxy, which has no such limit because many callers share its address.
   */
  #groupOf(peer: string | undefined): string | undefined {
    const address = normaliseAddress(peer ?? '');
    return address !== undefined && isWithin(this.#proxies, address) ? undefined : addressGroup(address ?? '');
  }

  /**
   * Starts a request when the earlier requests of its connection have been answered. Does not start it if the
   * connection is lost before.
   */
  waitForTurn(request: IncomingMessage, answer: ServerResponse, start: () => void): void {
    const { socket } = request;
    // A second server (HOST=localhost has two) emits no event here, so its connections are registered at their first
    // request.
    const connection = this.#open.get(socket) ?? (socket.destroyed ? undefined : this.accept(socket));
    if (!connection) return;
    const begin = () => {
      connection.request = request;
      this.#slots.setBusy(connection);
      answer.once('close', () => this.#endTurn(connection));
      start();
    };
    if (!connection.request) return begin();
    if (connection.waiting.length === maxWaiting) return void socket.destroy();
    connection.waiting.push(begin);
    socket.pause();
  }

  #endTurn(connection: Connection): void {
    connection.request = undefined;
    if (!connection.socket.writable) return; // connection lost, or this was the last response
    const next = connection.waiting.shift();
    if (connection.waiting.length === 0 && connection.socket.isPaused()) connection.socket.resume();
    if (next) next();
    else this.#slots.setIdle(connection);
  }

  /**
   * Closes the connections whose callers transferred no data in the last `CONNECTION_SILENCE_MS` although they had to
   * send or read some.
   * @returns how many connections were closed since the previous check, by reason
   */
  async check(): Promise<{ refused: number; evicted: number; silent: number }> {
    const isWriting = [...this.#open.keys()].some((socket) => socket.writableLength > 0);
    const unacknowledged: Unacknowledged = isWriting ? await readUnacknowledged() : new Map();
    for (const connection of this.#open.values()) {
      if (!isSilent(connection, unacknowledged)) continue;
      this.#closed.silent += 1;
      connection.socket.resetAndDestroy(); // discards the data that the kernel still buffers for the peer
    }
    const closed = this.#closed;
    this.#closed = { refused: 0, evicted: 0, silent: 0 };
    return closed;
  }
}

const newConnection = (socket: Socket, group: string | undefined): Connection => ({
  socket,
  group,
  request: undefined,
  waiting: [],
  owed: undefined,
  silentChecks: 0,
});

/**
 * Returns whether the caller has made no progress for `CONNECTION_SILENCE_MS`, although it had to send or read data.
 * Counts the current check.
 */
function isSilent(connection: Connection, unacknowledged: Unacknowledged): boolean {
  const owed = owedBy(connection, unacknowledged);
  connection.silentChecks = owed !== undefined && owed === connection.owed ? connection.silentChecks + 1 : 0;
  connection.owed = owed;
  return connection.silentChecks >= checks;
}

/**
 * Describes what the caller must still send or read. The text changes with every transferred byte, so equal texts mean
 * no progress. Returns undefined if the caller owes nothing.
 */
function owedBy({ socket, request }: Connection, unacknowledged: Unacknowledged): string | undefined {
  if (socket.writableLength > 0) return `take ${writeProgress(socket, unacknowledged)}`;
  if (socket.writableEnded) return 'close';
  const isHeldUpByUs = request !== undefined && request.readableLength >= request.readableHighWaterMark;
  return request && !request.complete && !isHeldUpByUs ? `send ${socket.bytesRead}` : undefined;
}
