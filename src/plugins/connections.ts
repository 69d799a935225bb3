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
  /** The request that is being handled on this connection, or undefined. */
  request: IncomingMessage | undefined;
  /**
   * The functions that start the waiting requests of this connection, in order of arrival. A request waits until all
   * earlier requests of the connection have got their responses.
   */
  waiting: (() => void)[];
  /**
   * Describes the data that was still to be received from the caller or sent to it at the last check for stalled
   * connections; undefined if there was none. If two checks find the same text, nothing was transferred in between.
   */
  owed: string | undefined;
  silentChecks: number;
}

/**
 * Maximum number of requests on one connection that wait for the responses to earlier requests. Each waiting request
 * takes some kilobytes of memory.
 */
const maxWaiting = 32;
/** Number of checks for stalled connections during the time `CONNECTION_SILENCE_MS`. */
const checks = 8;

/**
 * Fastify plugin that limits network connections. At most `MAX_CONNECTIONS` connections are open, divided fairly among
 * IP addresses. Closes stalled connections: those whose caller must send or read data, but transfers no byte for
 * `CONNECTION_SILENCE_MS`.
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
   * Registers a new connection and returns it. If too many connections are open, closes an idle connection. If none is
   * idle, closes the new connection and returns undefined.
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
   * Returns the group of a connection: the caller's IPv4 address, or the /64 prefix of the caller's IPv6 address.
   * Connections of one group share a limit. Returns undefined for a trusted proxy, which has no limit per group.
   */
  #groupOf(peer: string | undefined): string | undefined {
    const address = normaliseAddress(peer ?? '');
    return address !== undefined && isWithin(this.#proxies, address) ? undefined : addressGroup(address ?? '');
  }

  /**
   * Calls `start` for a request when all earlier requests on the same connection have got their responses. Does not
   * call `start` if the connection closes before.
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
    // While a request waits, nothing is read from its connection. So at most one response per connection is in memory.
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
   * Closes stalled connections: those whose caller had to send or read data, but transferred no byte for
   * `CONNECTION_SILENCE_MS`.
   * @returns The number of connections that were closed since the previous call, for each reason.
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
 * Returns true if a connection is stalled: the caller had to send or read data, but transferred no byte for
 * `CONNECTION_SILENCE_MS`. Must be called exactly once per check, because the function counts checks without progress.
 */
function isSilent(connection: Connection, unacknowledged: Unacknowledged): boolean {
  const owed = owedBy(connection, unacknowledged);
  connection.silentChecks = owed !== undefined && owed === connection.owed ? connection.silentChecks + 1 : 0;
  connection.owed = owed;
  return connection.silentChecks >= checks;
}

/**
 * Returns a text that describes which data the caller must still send or read, or undefined if there is no such data.
 * The text changes with every transferred byte, so two equal texts mean no progress.
 */
function owedBy({ socket, request }: Connection, unacknowledged: Unacknowledged): string | undefined {
  if (socket.writableLength > 0) return `take ${writeProgress(socket, unacknowledged)}`;
  if (socket.writableEnded) return 'close';
  const isHeldUpByUs = request !== undefined && request.readableLength >= request.readableHighWaterMark;
  return request && !request.complete && !isHeldUpByUs ? `send ${socket.bytesRead}` : undefined;
}
