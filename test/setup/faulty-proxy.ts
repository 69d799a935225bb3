import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A stretch of network between a client and its server that can be made to fail. */
export interface FaultyProxy {
  /** The same URL, through the proxy. */
  through(url: string): string;
  /** Swallows every byte from now on, in both directions; connections stay open and new ones are still accepted. */
  freeze(): void;
  /** Forwards again. What was swallowed is lost: connections from before stay silent. */
  thaw(): void;
  /** Resets one connection, chosen at random; false when there is none. */
  resetOne(): boolean;
  /** Resets all connections. */
  resetAll(): void;
  /** How many times clients have sent something so far. */
  sendings(): number;
  /** Delivers each answer of the server so many milliseconds late from now on: a slow server that takes no processor time. */
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

/** Starts a proxy to the host and port that `target` names. */
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
  const listener = createServer((client) => (hangingUp ? client.resume().end() : accept(client)));
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
    gone();
    if (pair.silent) return; // the other side hears nothing, not even the end
    client.destroy();
    server.destroy();
  };
  client.on('data', (chunk) => pair.silent || server.write(chunk));
  const deliver = (chunk: Buffer) => pair.silent || client.write(chunk);
  server.on('data', (chunk) => (lateness.ms > 0 ? setTimeout(deliver, lateness.ms, chunk) : deliver(chunk)));
  for (const socket of [client, server]) socket.on('error', () => {}).on('close', end);
}
