import type { Fault } from './errors.ts';

/** A text of an error answer is cut to so many UTF-16 units, the last of them an ellipsis. */
const longestText = 500;

/** A text of an error answer, cut where it is too long. */
export const cutText = (text: string): string =>
  (text.length > longestText ? `${text.slice(0, longestText - 1)}…` : text).toWellFormed();

/**
 * Faults as an error answer lists them, their texts cut.
 * @param most how many at most
 * @param bytes how long their JSON may be, brackets apart; the list ends with the last fault that has room
 */
export function listFaults(faults: readonly Fault[], most: number, bytes: number): Fault[] {
  const listed: Fault[] = [];
  let room = bytes;
  for (const { path, message } of faults.slice(0, most)) {
    const fault = { path: cutText(path), message: cutText(message) };
    room -= Buffer.byteLength(JSON.stringify(fault)) + 1;
    if (room < 0) break;
    listed.push(fault);
  }
  return listed;
}
