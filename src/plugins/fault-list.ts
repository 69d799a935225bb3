import type { Fault } from '../errors.ts';

/** Maximum length of a text in an error response (UTF-16 units). A longer text is cut and ends with an ellipsis (…). */
const maxTextLength = 500;

/** Cuts a text to the maximum length of a text in an error response. */
export const cutText = (text: string): string =>
  (text.length > maxTextLength ? `${text.slice(0, maxTextLength - 1)}…` : text).toWellFormed();

/**
 * Returns the faults that an error response lists. Cuts their texts if they are too long.
 * @param max maximum number of faults
 * @param bytes maximum size of the list as JSON, without its brackets; faults that do not fit are left out
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
