import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import fp from 'fastify-plugin';
import { addressGroup } from '../address-group.ts';
import { isWithin, normaliseAddress, parseRanges, type AddressRanges } from '../addresses.ts';
import type { Config } from '../config.ts';
import { ConnectionPlaces, type Holder } from '../connection-places.ts';
import { readUnacknowledged, writeProgress, type Unacknowledged } from '../socket-progress.ts';

/** A connection of a caller. */
interface Connection extends Holder {
  socket: Socket;
  /** The request that is being answered. */
  request: IncomingMessage | undefined;
  /** Starts the requests that were sent ahead of the answers, in order. */
  waiting: (() => void)[];
  /** What the peer owed at the last check, and for how many checks nothing of it came. */
  owed: string | undefined;
  silentChecks: number;
}

/** Requests that may wait on one connection for the answers before them; each keeps some kilobytes. */
const mostWaiting = 32;
/** Checks within `CONNECTION_SILENCE_MS`. */
const checks = 8;

/**
 * Keeps connections from holding what others need. There are at most `MAX_CONNECTIONS`, shared by address. A connection's
 * requests are answered one after the other, and it is not read while one waits, so that one answer at most is in memory. A
 * connection is closed whose peer takes or sends no byte of an answer or a request for `CONNECTION_SILENCE_MS`, however
 * long the request itself may take.
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
      else done(); // injected by a test
    });
  },
  { name: 'connections', dependencies: ['services'] },
);

class Connections {
  readonly #places: ConnectionPlaces<Connection>;
  readonly #proxies: AddressRanges;
  readonly #open = new Map<Socket, Connection>();
  #closed = { refused: 0, evicted: 0, silent: 0 };

  constructor({ MAX_CONNECTIONS, TRUST_PROXY }: Config) {
    this.#places = new ConnectionPlaces(MAX_CONNECTIONS);
    this.#proxies = parseRanges(TRUST_PROXY ?? '').ranges;
  }

  /** Gives a new connection a place, or closes it. */
  accept(socket: Socket): Connection | undefined {
    const connection = newConnection(socket, this.#groupOf(socket.remoteAddress));
    const { admitted, evicted } = this.#places.admit(connection);
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
    // Node resumes a socket when an answer was taken or a body is wanted.
    socket.on('resume', () => connection.waiting.length > 0 && socket.pause());
    socket.once('close', () => this.#open.delete(socket) && this.#places.release(connection));
    return connection;
  }

  /** An address; of IPv6 its /64. All callers behind a trusted proxy have its address, so that it is not limited. */
  #groupOf(peer: string | undefined): string | undefined {
    const address = normaliseAddress(peer ?? '');
    return address !== undefined && isWithin(this.#proxies, address) ? undefined : addressGroup(address ?? '');
  }

  /** Starts a request when those before it on its connection are answered; never when the connection is lost before. */
  waitForTurn(request: IncomingMessage, answer: ServerResponse, start: () => void): void {
    const { socket } = request;
    // A server beside the main one (HOST=localhost has two) tells of its connections by their first request.
    const connection = this.#open.get(socket) ?? (socket.destroyed ? undefined : this.accept(socket));
    if (!connection) return;
    const begin = () => {
      connection.request = request;
      this.#places.setBusy(connection);
      answer.once('close', () => this.#endTurn(connection));
      start();
    };
    if (!connection.request) return begin();
    if (connection.waiting.length === mostWaiting) return void socket.destroy();
    connection.waiting.push(begin);
    socket.pause();
  }

  #endTurn(connection: Connection): void {
    connection.request = undefined;
    if (!connection.socket.writable) return; // lost, or the answer was the last one
    const next = connection.waiting.shift();
    if (connection.waiting.length === 0 && connection.socket.isPaused()) connection.socket.resume();
    if (next) next();
    else this.#places.setIdle(connection);
  }

  /**
   * Closes the connections whose peers owed the same at each of the last checks.
   * @returns how many were closed since the last check, and why
   */
  async check(): Promise<{ refused: number; evicted: number; silent: number }> {
    const isWriting = [...this.#open.keys()].some((socket) => socket.writableLength > 0);
    const unacknowledged: Unacknowledged = isWriting ? await readUnacknowledged() : new Map();
    for (const connection of this.#open.values()) {
      if (!isSilent(connection, unacknowledged)) continue;
      this.#closed.silent += 1;
      connection.socket.resetAndDestroy(); // the kernel need not keep what nobody takes
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

/** Whether the peer owed the same at each check of the last `CONNECTION_SILENCE_MS`. */
function isSilent(connection: Connection, unacknowledged: Unacknowledged): boolean {
  const owed = owedBy(connection, unacknowledged);
  connection.silentChecks = owed !== undefined && owed === connection.owed ? connection.silentChecks + 1 : 0;
  connection.owed = owed;
  return connection.silentChecks >= checks;
}

/** What the peer has still to take or to send, as a text that changes as it does so; undefined when it owes nothing. */
function owedBy({ socket, request }: Connection, unacknowledged: Unacknowledged): string | undefined {
  if (socket.writableLength > 0) return `take ${writeProgress(socket, unacknowledged)}`;
  if (socket.writableEnded) return 'close';
  const isHeldUpByUs = request !== undefined && request.readableLength >= request.readableHighWaterMark;
  return request && !request.complete && !isHeldUpByUs ? `send ${socket.bytesRead}` : undefined;
}
