import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { logFormat } from '../../src/process/log-format.ts';

const lines = 20_000; // about 5 MB

/**
 * Returns a program that logs numbered lines, says so on stdout, logs one more every 100 ms, and ends with its stdin.
 * @param environment its configuration
 */
const code = (environment: Record<string, string>) => `
  import { logger } from './src/process/logger.ts';
  import { parseConfig } from './src/process/config.ts';
  const log = logger(parseConfig(${JSON.stringify(environment)}));
  for (let i = 0; i < ${lines}; i += 1) log.info({ i, filler: 'x'.repeat(200) }, 'numbered');
  console.log('logged');
  setInterval(() => log.info('later'), 100);
  process.stdin.once('end', () => process.exit(0)).resume();`;

function startLogging(stderr: 'pipe' | number, format: string): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '-e', code({ LOG_FORMAT: format })], {
    cwd: join(import.meta.dirname, '..', '..'),
    stdio: ['pipe', 'pipe', stderr],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

const untilLogged = (child: ChildProcess) => once(createInterface(child.stdout!), 'line');

/** Reads what the tests need from a log line, by format. Returns undefined for a line break within a line. */
const read: Record<string, (line: string) => { msg: string; i?: number; count?: number }> = {
  json: (line) => JSON.parse(line) as { msg: string; i: number },
  pretty: (line) => {
    const [, msg, rest] = /^\[[\d:.]+\] [A-Z]+: ([^{]+) (\{.*\})?$/.exec(line.replace(/later$/, 'later '))!;
    return { msg: msg!.trim(), ...(JSON.parse(rest ?? '{}') as object) };
  },
};

describe.each(['json', 'pretty'])('in format %s', (format) => {
  test('a stopped log reader blocks nothing, and later gets the number of lost lines', async () => {
    const child = startLogging('pipe', format);
    expect(await untilLogged(child)).toEqual(['logged']);
    let received = '';
    child.stderr!.setEncoding('utf8').on('data', (some: string) => (received += some));
    await expect.poll(() => received, { timeout: 20_000 }).toMatch(/log lines were lost.*\n.*later/);
    child.stdin!.end();
    await once(child, 'close');
    const logged = received.trimEnd().split('\n').map(read[format]!);
    const numbers = logged.filter(({ msg }) => msg === 'numbered').map(({ i }) => i);
    expect(numbers).toEqual(Array.from(numbers, (_, i) => i));
    expect(numbers.length).toBeGreaterThan(1_000);
    const lost = logged.find(({ msg }) => msg === 'log lines were lost')!;
    expect(lost.count).toBeGreaterThanOrEqual(lines - numbers.length);
  });

  test('a full disk does not end the process', async () => {
    const full = openSync('/dev/full', 'w');
    onTestFinished(() => closeSync(full));
    const child = startLogging(full, format);
    const output = text(child.stdout!);
    await once(child.stdout!, 'data');
    child.stdin!.end();
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(await output).toBe('logged\n');
  });
});

/** Whether the program `script` is installed. It runs a command on a terminal of its own. */
const hasScript = spawnSync('script', ['--version']).status === 0;

describe.runIf(hasScript)('on a terminal (needs script: apt-get install bsdutils)', () => {
  test('lines are readable, and nothing blocks while its output is stopped', async () => {
    // `script` stops to read the terminal when nobody reads its own output.
    const child = spawn('script', ['-qefc', '"$NODE" --input-type=module -e "$CODE" >&3', '/dev/null'], {
      cwd: join(import.meta.dirname, '..', '..'),
      env: { PATH: process.env['PATH'], NODE: process.execPath, CODE: code({}), NO_COLOR: '1', TERM: 'xterm' },
      stdio: ['pipe', 'pipe', 'ignore', 'pipe'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    expect(await once(createInterface(child.stdio[3] as Readable), 'line')).toEqual(['logged']);
    let shown = '';
    child.stdout!.setEncoding('utf8').on('data', (some: string) => (shown += some));
    await expect.poll(() => shown, { timeout: 20_000 }).toMatch(/log lines were lost[^\n]*\n.*later/);
    expect(shown).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: numbered \{"i":0,/);
  });
});

test('text from outside cannot control a terminal, and JSON lines are exact', () => {
  const hostile = { text: '\u001b[2J\u009b\r\b\f\u007f', path: 'C:\\bin\\u001b', lines: 'a\n\tb', word: 'ä€😀א' };
  const bidi = { bidi: '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069' };
  const line = `${JSON.stringify({ level: 30, time: 0, msg: '\u001b]0;title\u0007', ...hostile, ...bidi })}\n`;
  expect(logFormat({ LOG_FORMAT: 'json' })(line)).toBe(line);
  const pretty = logFormat({ LOG_FORMAT: 'pretty' })(line);
  expect(pretty).toMatch(/^[^\p{Cc}\p{Bidi_Control}]*\n$/u);
  for (const { path, word } of [hostile]) for (const text of [path, word]) expect(pretty).toContain(text);
});
