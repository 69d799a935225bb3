import { readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/** Bytes sent and not acknowledged by the peer, by inode of the socket. */
export type Unacknowledged = ReadonlyMap<string, number>;

/**
 * Reads the unacknowledged bytes of all TCP connections of this machine. Works only on Linux; elsewhere, the map is
 * empty.
 * @see https://docs.kernel.org/networking/proc_net_tcp.html
 */
export async function readUnacknowledged(): Promise<Unacknowledged> {
  const tables = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map(readTable));
  return new Map(
    tables
      .flat()
      .flatMap(([, , , , queues, , , , , inode]) =>
        inode ? [[inode, Number.parseInt(queues!.split(':')[0]!, 16)]] : [],
      ),
  );
}

async function readTable(path: string): Promise<string[][]> {
  const text = await readFile(path, 'latin1').catch(() => '');
  return text
    .split('\n')
    .slice(1)
    .map((row) => row.trim().split(/\s+/));
}

/**
 * Returns how many bytes of a socket the peer has received. Can be too high if the socket was written to after
 * `unacknowledged` was read.
 */
export function receivedBytes(socket: Socket, unacknowledged: Unacknowledged): number {
  const { bytesWritten = 0, writeQueueSize = 0 } = handleOf(socket);
  return bytesWritten - writeQueueSize - (unacknowledged.get(inodeOf(socket) ?? '') ?? 0);
}

function inodeOf(socket: Socket): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${handleOf(socket).fd}`))?.[1];
  } catch {
    return undefined;
  }
}

/**
 * Returns the internal object of a Node socket. `bytesWritten` is what Node has passed to libuv, `writeQueueSize` the
 * part that the kernel has not accepted yet, `fd` the file descriptor.
 */
const handleOf = (socket: Socket): { bytesWritten?: number; writeQueueSize?: number; fd?: number } =>
  (socket as unknown as Record<'_handle', object | null | undefined>)['_handle'] ?? {};
