import { readlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/** The kernel's count of unacknowledged bytes of each TCP connection (hexadecimal), by the socket's inode. */
export type Unacknowledged = ReadonlyMap<string, string>;

/**
 * Reads the number of unacknowledged bytes of every TCP connection. The map is empty on systems other than Linux.
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
 * Returns a text that changes whenever the peer receives some of the data written to a socket. Includes the
 * unacknowledged bytes, because the kernel takes data from the process a megabyte at a time, while the peer
 * acknowledges smaller steps.
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

/**
 * Returns Node's internal handle of a socket: `writeQueueSize` is the number of bytes of the current write that the
 * kernel has not taken yet, `fd` the file descriptor.
 */
const handleOf = (socket: Socket): { writeQueueSize?: number; fd?: number } =>
  (socket as unknown as Record<'_handle', object | null | undefined>)['_handle'] ?? {};
