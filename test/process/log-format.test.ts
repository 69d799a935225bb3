import { expect, test } from 'vitest';
import { logFormat } from '../../src/process/logger.ts';

test('text from outside cannot control a terminal, and JSON lines are exact', () => {
  const hostile = { text: '\u001b[2J\u009b\r\b\f\u007f', path: 'C:\\bin\\u001b', lines: 'a\n\tb', word: 'ä€😀א' };
  const bidi = { bidi: '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069' };
  const line = `${JSON.stringify({ level: 30, time: 0, msg: '\u001b]0;title\u0007', ...hostile, ...bidi })}\n`;
  expect(logFormat({ LOG_FORMAT: 'json' })(line)).toBe(line);
  const pretty = logFormat({ LOG_FORMAT: 'pretty' })(line);
  expect(pretty).toMatch(/^[^\p{Cc}\p{Bidi_Control}]*\n$/u);
  for (const { path, word } of [hostile]) for (const text of [path, word]) expect(pretty).toContain(text);
});
