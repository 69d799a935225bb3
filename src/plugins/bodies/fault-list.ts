import type { Fault } from '../../errors.ts';

const maxTextLength = 500;

export const cutText = (text: string): string =>
  (text.length > maxTextLength ? `${text.slice(0, maxTextLength - 1)}…` : text).toWellFormed();

/**
 * Returns the invalid values (`faults`) for an error response. Shortens long texts, and leaves out elements at the end
 * if the list is too long.
 * @param max The maximum number of elements.
 * @param bytes The maximum size of the list as JSON, without its brackets.
 */
export function listFaults(faults: readonly Fault[], max: number, bytes: number): Fault[] {
  const listed: Fault[] = [];
  let room = bytes;
  for (const { path, message } of faults.slice(0, max)) {
    const fault = { path: cutText(path), message: cutText(message) };
    room -= Buffer.byteLength(JSON.stringify(fault)) + 1;
    if (room < 0) break;
    listed.push(fault);
  }
  return listed;
}
