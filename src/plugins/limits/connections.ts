import { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Config } from '../../process/config.ts';
import { FairSlots, type SlotHolder } from '../../limits/gate.ts';
import { addressGroup } from '../../network/address-group.ts';
import { isWithin, normaliseAddress, parseRanges, type AddressRanges } from '../../network/ip-addresses.ts';
import { Pace } from '../../network/pace.ts';
import { readUnacknowledged, receivedBytes, type Unacknowledged } from '../../network/socket-progress.ts';

interface Connection {
  socket: Socket;
  /** Who shares a limit with this connection: its IPv4 address, or the /64 prefix of its IPv6 address. */
  holder: SlotHolder;
  request: FastifyRequest | undefined;
  /**
   * The functions that start the waiting requests of this connection, in order of arrival. A request waits until all
   * earlier requests of the connection have got their responses.
   */
  waiting: (() => void)[];
  /** What the caller had to do next at the last check for slow callers; undefined if it had to do nothing. */
  task: Task['kind'] | undefined;
  pace: Pace;
}

/**
 * Maximum number of requests on one connection that wait for the responses to earlier requests. Each waiting request
 * takes some kilobytes of memory.
 */
const maxWaiting = 32;
/** Number of checks for slow callers during the time `CONNECTION_SILENCE_MS`. */
const checks = 8;
/** Bytes per second that a caller must move at least when it has data to send or to read. */
const leastRate = 1024;

/**
 * Fastify plugin that limits network connections. At most `MAX_CONNECTIONS` connections are open, divided fairly among
 * IP addresses. Closes the connections of slow callers: those that have data to send or to read, but move less than 1 KiB/s
 * during `CONNECTION_SILENCE_MS`. While a file is uploaded or downloaded, one byte during this time is enough.
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
      if (request.raw.socket instanceof Socket) connections.waitForTurn(request, reply, done);
      else done(); // a test injected the request without a socket
    });
  },
  { name: 'connections', dependencies: ['services'] },
);

class Connections {
  readonly #slots: FairSlots;
  /** The connections without a request, ordered by how long they have been idle, longest first. */
  readonly #idle = new Set<Connection>();
  readonly #proxies: AddressRanges;
  readonly #open = new Map<Socket, Connection>();
  readonly #leastBytes: number;
  #closed = { refused: 0, evicted: 0, slow: 0 };

  constructor({ MAX_CONNECTIONS, TRUST_PROXY, CONNECTION_SILENCE_MS }: Config) {
    this.#slots = new FairSlots(MAX_CONNECTIONS);
    this.#proxies = parseRanges(TRUST_PROXY ?? '').ranges;
    this.#leastBytes = (leastRate * CONNECTION_SILENCE_MS) / 1000;
  }

  /**
   * Registers a new connection, which is idle, and returns it. If too many connections are open, closes an idle connection. If none is
   * idle, closes the new connection and returns undefined.
   */
  accept(socket: Socket): Connection | undefined {
    const connection = newConnection(socket, this.#holderOf(socket.remoteAddress));
    const { holder } = connection;
    if (!this.#slots.tryTake(holder)) {
      if (!this.#evictFor(holder)) {
        this.#closed.refused += 1;
        return void socket.destroy();
      }
      this.#slots.take(holder);
    }
    this.#idle.add(connection);
    this.#open.set(socket, connection);
    // Node resumes a socket after a response was sent or when a body is read; while requests wait it stays paused.
    socket.on('resume', () => connection.waiting.length > 0 && socket.pause());
    socket.once('close', () => this.#forget(connection));
    return connection;
  }

  /** The holder of a connection of a trusted proxy is unique, so these connections have only the limit for all. */
  #holderOf(peer: string | undefined): SlotHolder {
    const address = normaliseAddress(peer ?? '');
    return address !== undefined && isWithin(this.#proxies, address) ? Symbol('proxy') : addressGroup(address ?? '');
  }

  /**
   * Closes the connection that has been idle longest: of this holder if it has connections, because it has its share
   * then, else of all. Returns false if none is idle.
   */
  #evictFor(holder: SlotHolder): boolean {
    const isOwn = this.#slots.heldBy(holder) > 0;
    const evicted = this.#idle.values().find((idle) => !isOwn || idle.holder === holder);
    if (!evicted) return false;
    this.#closed.evicted += 1;
    this.#forget(evicted);
    evicted.socket.destroy();
    return true;
  }

  #forget(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return;
    this.#idle.delete(connection);
    this.#slots.release(connection.holder);
  }

  /**
   * Calls `start` for a request when all earlier requests on the same connection have got their responses. Does not
   * call `start` if the connection closes before.
   */
  waitForTurn(request: FastifyRequest, reply: FastifyReply, start: () => void): void {
    const { socket } = request.raw;
    // A second server (HOST=localhost has two) emits no event here, so its connections are registered at their first
    // request.
    const connection = this.#open.get(socket) ?? (socket.destroyed ? undefined : this.accept(socket));
    if (!connection) return;
    const begin = () => {
      connection.request = request;
      connection.pace.reset();
      this.#idle.delete(connection);
      reply.raw.once('close', () => this.#endTurn(connection));
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
    else this.#idle.add(connection);
  }

  /**
   * Closes the connections of slow callers.
   * @returns The number of connections that were closed since the previous call, for each reason.
   */
  async check(): Promise<{ refused: number; evicted: number; slow: number }> {
    const isWriting = [...this.#open.keys()].some((socket) => socket.writableLength > 0);
    const unacknowledged: Unacknowledged = isWriting ? await readUnacknowledged() : new Map();
    for (const connection of this.#open.values()) {
      if (!this.#isSlow(connection, unacknowledged)) continue;
      this.#closed.slow += 1;
      connection.socket.resetAndDestroy(); // discards the data that the kernel still buffers for the peer
    }
    const closed = this.#closed;
    this.#closed = { refused: 0, evicted: 0, slow: 0 };
    return closed;
  }

  /**
   * Returns true if the caller has done too little of its task during `CONNECTION_SILENCE_MS`. Must be called exactly once
   * per check, because the function measures the progress since the last checks.
   */
  #isSlow(connection: Connection, unacknowledged: Unacknowledged): boolean {
    const task = taskOf(connection, unacknowledged);
    if (task?.kind !== connection.task) connection.pace.reset();
    connection.task = task?.kind;
    const leastBytes = connection.request?.routeOptions.config.isLong ? 1 : this.#leastBytes;
    return task !== undefined && connection.pace.add(task.bytes) < leastBytes;
  }
}

const newConnection = (socket: Socket, holder: SlotHolder): Connection => ({
  socket,
  holder,
  request: undefined,
  waiting: [],
  task: undefined,
  pace: new Pace(checks),
});

/** What the caller of a connection must do before the service can continue. */
interface Task {
  kind: 'read the response' | 'close' | 'send the request';
  /** The number of bytes that the caller has read or sent so far. */
  bytes: number;
}

/** Returns what the caller must do next, or undefined if the caller waits for the service. */
function taskOf({ socket, request }: Connection, unacknowledged: Unacknowledged): Task | undefined {
  if (socket.writableLength > 0) return { kind: 'read the response', bytes: receivedBytes(socket, unacknowledged) };
  if (socket.writableEnded) return { kind: 'close', bytes: 0 };
  if (!request || request.raw.complete) return undefined;
  const isHeldUpByUs = request.raw.readableLength >= request.raw.readableHighWaterMark;
  return isHeldUpByUs ? undefined : { kind: 'send the request', bytes: socket.bytesRead };
}
