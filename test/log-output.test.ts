import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';

const lines = 20_000; // about 5 MB

/** A process that logs numbered lines, says so on stdout, logs one more every 100 ms, and ends with its stdin. */
function startLogging(stderr: 'pipe' | number): ChildProcess {
  const script = `
    import { logger } from './src/app.ts';
    import { parseConfig } from './src/config.ts';
    const log = logger(parseConfig({}));
    for (let i = 0; i < ${lines}; i += 1) log.info({ i, filler: 'x'.repeat(200) }, 'numbered');
    console.log('logged');
    setInterval(() => log.info('later'), 100);
    process.stdin.once('end', () => process.exit(0)).resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    cwd: join(import.meta.dirname, '..'),
    stdio: ['pipe', 'pipe', stderr],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

const untilLogged = (child: ChildProcess) => once(createInterface(child.stdout!), 'line');

test('a stopped log reader blocks nothing, and later gets the number of lost lines', async () => {
  const child = startLogging('pipe');
  expect(await untilLogged(child)).toEqual(['logged']);
  let received = '';
  child.stderr!.setEncoding('utf8').on('data', (some: string) => (received += some));
  await expect.poll(() => received, { timeout: 20_000 }).toMatch(/log lines were lost.*\n.*later/);
  child.stdin!.end();
  await once(child, 'close');
  const logged = received
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { msg: string; i: number; count: number });
  const numbers = logged.filter(({ msg }) => msg === 'numbered').map(({ i }) => i);
  expect(numbers).toEqual(Array.from(numbers, (_, i) => i));
  expect(numbers.length).toBeGreaterThan(1_000);
  const lost = logged.find(({ msg }) => msg === 'log lines were lost')!;
  expect(lost.count).toBeGreaterThanOrEqual(lines - numbers.length);
});

test('a full disk does not end the process', async () => {
  const full = openSync('/dev/full', 'w');
  onTestFinished(() => closeSync(full));
  const child = startLogging(full);
  const output = text(child.stdout!);
  await once(child.stdout!, 'data');
  child.stdin!.end();
  expect(await once(child, 'exit')).toEqual([0, null]);
  expect(await output).toBe('logged\n');
});
