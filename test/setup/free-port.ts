import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** Returns `count` different ports of 127.0.0.1 that are free now, for servers that cannot choose their port. */
export async function freePorts(count: number): Promise<number[]> {
  // All are open at the same time, so that no port is chosen twice.
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Returns a port of 127.0.0.1 that is free now. */
export const freePort = async (): Promise<number> => (await freePorts(1))[0]!;
