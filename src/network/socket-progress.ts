import { readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/**
 * For each TCP connection, the number of sent bytes that the peer has not acknowledged (as a hexadecimal text). The key
 * is the inode of the socket.
 */
export type Unacknowledged = ReadonlyMap<string, string>;

/**
 * Reads for every TCP connection how many sent bytes the peer has not acknowledged. Returns an empty map if the system
 * is not Linux.
 * @see https://docs.kernel.org/networking/proc_net_tcp.html
 */
export async function readUnacknowledged(): Promise<Unacknowledged> {
  const tables = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map(readTable));
  return new Map(
    tables.flat().flatMap(([, , , , queues, , , , , inode]) => (inode ? [[inode, queues!.split(':')[0]!]] : [])),
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
 * Returns a text that changes whenever the peer receives data from a socket. Compare two of these texts to detect a
 * peer that has stopped reading.
 * @param unacknowledged the result of `readUnacknowledged`
 */
export function writeProgress(socket: Socket, unacknowledged: Unacknowledged): string {
  const finishedWrites = socket.bytesWritten - socket.writableLength;
  const { writeQueueSize } = handleOf(socket);
  // The unacknowledged bytes change in smaller steps than the socket's own counters.
  return `${finishedWrites} ${writeQueueSize} ${unacknowledged.get(inodeOf(socket) ?? '')}`;
}

function inodeOf(socket: Socket): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${handleOf(socket).fd}`))?.[1];
  } catch {
    return undefined;
  }
}

/**
 * Returns the internal object of a Node socket. `writeQueueSize` is the number of bytes that the kernel has not
 * accepted yet; `fd` is the file descriptor.
 */
const handleOf = (socket: Socket): { writeQueueSize?: number; fd?: number } =>
  (socket as unknown as Record<'_handle', object | null | undefined>)['_handle'] ?? {};
