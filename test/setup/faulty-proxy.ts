import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A proxy between a client and its server that simulates network failures. */
export interface FaultyProxy {
  /** The target's URL, through the proxy. */
  through(url: string): string;
  /** Drops every byte from now on, in both directions. Connections stay open, and new ones are accepted. */
  freeze(): void;
  /** Forwards again. Dropped bytes are lost: earlier connections stay silent. */
  thaw(): void;
  /** Resets one random connection. Returns false if there is none. */
  resetOne(): boolean;
  /** Resets all connections. */
  resetAll(): void;
  /** Number of chunks that clients have sent so far. */
  sendings(): number;
  /**
   * Delays each response of the server by this many milliseconds from now on, to simulate a slow server without using
   * CPU time.
   */
  delay(ms: number): void;
  /** Accepts new connections and closes them at once, without an error. */
  hangUp(on: boolean): void;
  close(): Promise<void>;
}

interface Pair {
  client: Socket;
  server: Socket;
  silent: boolean;
}

/** Starts a proxy to the host and port in the URL `target`. */
export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target);
  const pairs = new Set<Pair>();
  let frozen = false;
  let hangingUp = false;
  let sendings = 0;
  const lateness = { ms: 0 };
  const accept = (client: Socket) => {
    client.on('data', () => (sendings += 1));
    const pair: Pair = { client, server: connect(Number(port), hostname), silent: frozen };
    pairs.add(pair);
    join(pair, lateness, () => pairs.delete(pair));
  };
  // A frozen side does not answer the end of the other side's stream.
  const listener = createServer({ allowHalfOpen: true }, (client) =>
    hangingUp ? client.resume().end() : accept(client),
  );
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  const address = listener.address() as AddressInfo;
  return {
    through: (url) => Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(address.port) }).href,
    freeze: () => {
      frozen = true;
      for (const pair of pairs) pair.silent = true;
    },
    thaw: () => (frozen = false),
    sendings: () => sendings,
    delay: (ms) => (lateness.ms = ms),
    hangUp: (on) => (hangingUp = on),
    resetOne: () => {
      const pair = [...pairs][Math.floor(Math.random() * pairs.size)];
      pair?.client.resetAndDestroy();
      return pair !== undefined;
    },
    resetAll: () => pairs.forEach(({ client }) => client.resetAndDestroy()),
    close: async () => {
      for (const { client, server } of pairs) [client, server].forEach((socket) => socket.destroy());
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

function join(pair: Pair, lateness: { ms: number }, gone: () => void): void {
  const { client, server } = pair;
  const end = () => {
    if (client.closed && server.closed) gone();
    if (pair.silent) return; // the other side receives nothing, not even the end of the stream
    client.destroy();
    server.destroy();
  };
  client.on('data', (chunk) => pair.silent || server.write(chunk));
  client.on('end', () => pair.silent || client.end());
  const deliver = (chunk: Buffer) => pair.silent || client.write(chunk);
  server.on('data', (chunk) => (lateness.ms > 0 ? setTimeout(deliver, lateness.ms, chunk) : deliver(chunk)));
  for (const socket of [client, server]) socket.on('error', () => {}).on('close', end);
}
