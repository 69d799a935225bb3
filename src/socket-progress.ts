import { readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/** Bytes that the kernel keeps of each connection because the peer has not acknowledged them, by the socket's inode. */
export type Unacknowledged = ReadonlyMap<string, string>;

/**
 * Reads these numbers for all TCP connections. The map is empty where the system is not Linux.
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
 * Says how far the peer is with taking what was written to a socket, as a text that changes whenever it takes some. The
 * kernel takes bytes from us a megabyte at a time; the peer acknowledges what it takes in smaller steps.
 */
export function writeProgress(socket: Socket, unacknowledged: Unacknowledged): string {
  const finishedWrites = socket.bytesWritten - socket.writableLength;
  const { writeQueueSize } = handleOf(socket);
  return `${finishedWrites} ${writeQueueSize} ${unacknowledged.get(inodeOf(socket) ?? '')}`;
}

function inodeOf(socket: Socket): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${handleOf(socket).fd}`))?.[1];
  } catch {
    return undefined;
  }
}

/** What Node keeps of a socket: bytes that the kernel has not taken of the write under way, and the file descriptor. */
const handleOf = (socket: Socket): { writeQueueSize?: number; fd?: number } =>
  (socket as unknown as Record<'_handle', object | null | undefined>)['_handle'] ?? {};
