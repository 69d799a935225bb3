import { expect, test } from 'vitest';
import { yieldToEventLoop, TimeSlice } from '../../src/process/event-loop.ts';

/** Blocks the event loop for some time (ms). */
function compute(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end;); // blocks on purpose
}

test('one computation resumes per event loop round, however many are waiting', async () => {
  let round = 0;
  let isDone = false;
  const count = () => {
    round += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);

  const rounds: number[] = [];
  const task = async () => {
    for (let i = 0; i < 5; i += 1) {
      await yieldToEventLoop();
      rounds.push(round);
    }
  };
  await Promise.all(Array.from({ length: 8 }, task));
  isDone = true;
  expect(rounds).toHaveLength(40);
  expect(new Set(rounds).size).toBe(40);
});

test('a time slice ends after some milliseconds and restarts after a pause', async () => {
  const stretch = new TimeSlice();
  let timers = 0;
  const timer = setInterval(() => (timers += 1), 1);
  for (let pauses = 0; pauses < 20; pauses += 1) {
    compute(20);
    expect(stretch.isOver).toBe(true);
    await stretch.pause();
  }
  clearInterval(timer);
  expect(timers).toBeGreaterThanOrEqual(10);
});
