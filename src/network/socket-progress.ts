import { readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/**
 * A map with the number of sent bytes that the peer has not acknowledged, for each TCP connection. The key is the inode
 * of the socket.
 */
export type Unacknowledged = ReadonlyMap<string, number>;

/**
 * Returns the number of sent bytes that the peer has not acknowledged yet, for each TCP connection of this machine.
 * Works only on Linux; on other systems, returns an empty map.
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
 * Returns the number of bytes of a socket that the peer has received. A number can be too high if the socket was written
 * to after `unacknowledged` was read.
 * @param unacknowledged the result of `readUnacknowledged`
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
 * Returns the internal object of a Node socket. Its `fd` is the file descriptor. `bytesWritten` is the number of bytes
 * that Node has passed to libuv, and `writeQueueSize` the number of those that the kernel has not accepted yet.
 */
const handleOf = (socket: Socket): { bytesWritten?: number; writeQueueSize?: number; fd?: number } =>
  (socket as unknown as Record<'_handle', object | null | undefined>)['_handle'] ?? {};
