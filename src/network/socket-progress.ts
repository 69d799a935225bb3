import { readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/**
 * A map with the number of sent bytes that the peer has not acknowledged, for each TCP connection. The key is the inode
 * of the socket; the number is a hexadecimal text.
 */
export type Unacknowledged = ReadonlyMap<string, string>;

/**
 * Returns the number of sent bytes that the peer has not acknowledged yet, for each TCP connection of this machine.
 * Works only on Linux; on other systems, returns an empty map.
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
 * Returns a text that represents how much data the peer has received from a socket. If two calls return the same text,
 * the peer has received no data between these calls.
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
 * Returns the internal object of a Node socket. Its `fd` is the file descriptor, and its `writeQueueSize` is the number
 * of bytes that the kernel has not accepted yet.
 */
const handleOf = (socket: Socket): { writeQueueSize?: number; fd?: number } =>
  (socket as unknown as Record<'_handle', object | null | undefined>)['_handle'] ?? {};
