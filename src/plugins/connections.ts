import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import fp from 'fastify-plugin';
import type { Config } from '../config.ts';
import { ConnectionSlots, type Holder } from '../limits/connection-slots.ts';
import { addressGroup } from '../network/address-group.ts';
import { isWithin, normaliseAddress, parseRanges, type AddressRanges } from '../network/ip-addresses.ts';
import { readUnacknowledged, writeProgress, type Unacknowledged } from '../network/socket-progress.ts';

/** An open connection of a caller. */
interface Connection extends Holder {
  socket: Socket;
  /** The request that is being handled. */
  request: IncomingMessage | undefined;
  /** Pipelined requests that wait, in order. Calling a function starts its request. */
  waiting: (() => void)[];
  /** The peer's outstanding bytes at the last check, as `owedBy` returns them. */
  owed: string | undefined;
  silentChecks: number;
}

/** Maximum number of pipelined requests that wait on one connection. Each takes some kilobytes. */
const maxWaiting = 32;
/** Number of checks per `CONNECTION_SILENCE_MS`. */
const checks = 8;

/**
 * Limits what connections can occupy. At most `MAX_CONNECTIONS` are open, shared fairly by address. The requests of one
 * connection are handled one after the other, and the connection is not read while a request waits, so at most one
 * response is in memory. A connection is closed when its peer takes or sends no byte of a response or request for
 * `CONNECTION_SILENCE_MS`; the handling of the request itself may take longer.
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

  /** Gives a new connection a slot, or closes it if none is free. */
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
   * Returns the group of a peer for the connection limit: its address, or the /64 prefix of an IPv6 address. Returns
   * undefined for a trusted proxy: all callers behind it share its address, so it is not limited.
   */
  #groupOf(peer: string | undefined): string | undefined {
    const address = normaliseAddress(peer ?? '');
    return address !== undefined && isWithin(this.#proxies, address) ? undefined : addressGroup(address ?? '');
  }

  /**
   * Starts a request once the earlier requests of its connection are answered. Never starts it if the connection is
   * lost before.
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
   * Closes the connections whose peers made no progress in the last `CONNECTION_SILENCE_MS`.
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
 * Returns whether the peer made no progress in any check of the last `CONNECTION_SILENCE_MS`. Counts the current check.
 */
function isSilent(connection: Connection, unacknowledged: Unacknowledged): boolean {
  const owed = owedBy(connection, unacknowledged);
  connection.silentChecks = owed !== undefined && owed === connection.owed ? connection.silentChecks + 1 : 0;
  connection.owed = owed;
  return connection.silentChecks >= checks;
}

/**
 * Returns the peer's outstanding bytes as a text that changes whenever it takes or sends some. Returns undefined if
 * nothing is outstanding.
 */
function owedBy({ socket, request }: Connection, unacknowledged: Unacknowledged): string | undefined {
  if (socket.writableLength > 0) return `take ${writeProgress(socket, unacknowledged)}`;
  if (socket.writableEnded) return 'close';
  const isHeldUpByUs = request !== undefined && request.readableLength >= request.readableHighWaterMark;
  return request && !request.complete && !isHeldUpByUs ? `send ${socket.bytesRead}` : undefined;
}
