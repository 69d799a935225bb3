/** Pauses after the first, second … failed try of an event (seconds). After the last try it is given up. */
const pauses = [5, 5 * 60, 30 * 60, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * 3600)];

/** By how much a pause is longer or shorter, at random, so that retries spread. */
const spread = 0.2;

/** Longest pause that a receiver can ask for (seconds). */
const longestAsked = 24 * 3600;

/**
 * Returns the seconds until the next try of an event, or null if it is given up.
 * @param attempt number of the try that failed, from 1
 * @param asked seconds that the receiver asked to wait
 */
export function pauseAfter(attempt: number, asked: number | null, random = Math.random): number | null {
  const pause = pauses[attempt - 1];
  if (pause === undefined) return null;
  const spreadOut = pause * (1 + spread * (2 * random() - 1));
  return Math.ceil(Math.max(spreadOut, Math.min(asked ?? 0, longestAsked)));
}
