import { expect, test, vi } from 'vitest';
import { FrequentTexts } from '../../src/filters/frequent-texts.ts';

/** Uses a text several times, and returns whether it is frequent at the last one. */
const use = (texts: FrequentTexts, text: string, times: number): boolean =>
  Array.from({ length: times }, () => texts.has(text)).at(-1)!;

test('a text becomes frequent by its uses', () => {
  const texts = new FrequentTexts();
  expect([use(texts, 'a', 4), use(texts, 'a', 1), use(texts, 'b', 1)]).toEqual([false, true, false]);
});

test('a caller who makes ever new texts makes no more than a fixed number of them frequent', () => {
  const texts = new FrequentTexts();
  const frequent = Array.from({ length: 1_000 }, (_, i) => use(texts, `text ${i}`, 10)).filter(Boolean);
  expect(frequent).toHaveLength(64);
});

test('a text that is used no longer gives way after an hour', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    const texts = new FrequentTexts();
    for (let i = 0; i < 64; i += 1) use(texts, `text ${i}`, 5);
    expect(use(texts, 'new', 10)).toBe(false);
    vi.advanceTimersByTime(3_600_001);
    expect(use(texts, 'new', 10)).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});
