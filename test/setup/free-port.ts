import { createServer } from 'node:net';

/**
 * Returns `count` ports of 127.0.0.1 in a row that are free now, for servers that cannot choose their port. They are outside
 * of the range from which the system takes ports of connections, so none is taken before the server starts.
 */
export async function freePorts(count: number): Promise<number[]> {
  for (;;) {
    const first = 20_000 + Math.floor(Math.random() * 10_000);
    const ports = Array.from({ length: count }, (_, n) => first + n);
    const areFree = await Promise.all(ports.map(isPortFree));
    if (areFree.every(Boolean)) return ports;
  }
}

/** Returns a port of 127.0.0.1 that is free now. */
export const freePort = async (): Promise<number> => (await freePorts(1))[0]!;

const isPortFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
      .once('error', () => resolve(false))
      .listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
