import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { openSync, closeSync } from 'node:fs';
import { appendFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import postgres from 'postgres';
import { describe, expect, test } from 'vitest';
import { generatePeople } from '../../src/commands/generate-people.ts';
import { temporaryFolder } from '../setup/at-end.ts';
import { startApp } from '../setup/app.ts';
import { nodeEnvironment } from '../setup/cli.ts';

// Catalog commands with a faulty file, output or database. They need /proc, so they run on Linux only.

const folder = await temporaryFolder();
const app = await startApp();
const environment = { ...nodeEnvironment, PATH: process.env['PATH']!, DATABASE_URL: app.url };
const cli = join(import.meta.dirname, '../../src/cli.ts');

const start = (words: string[], stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe']): ChildProcess =>
  spawn(process.execPath, [cli, 'catalog', ...words], { env: environment, stdio });

/** Collects the output of a process until it ends. Returns its exit code and the output. */
async function watch(child: ChildProcess): Promise<{ code: number; stdout: string; stderr: string }> {
  const said = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (said.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said.stderr += text));
  const [code] = (await once(child, 'close')) as [number];
  return { code, ...said };
}

/** Returns the CPU time that a process has used (clock ticks). */
async function ticks({ pid }: ChildProcess): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]!.split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

/** Waits until a process has written to stderr and then uses no more CPU time, because its output is not read. */
async function stalled(child: ChildProcess): Promise<void> {
  await once(child.stderr!, 'readable');
  for (let before = -1, now = await ticks(child); now !== before; now = await ticks(child)) {
    before = now;
    await sleep(500);
  }
}

/** Returns the peak memory of a process (MiB). */
const peakMegabytes = async ({ pid }: ChildProcess): Promise<number> =>
  Number(/VmHWM:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;

describe.skipIf(process.platform !== 'linux')('an import', () => {
  test('reports every bad line to a slow reader, with bounded memory', async () => {
    const lines = 400_000;
    const path = join(folder, 'bad.ndjson.gz');
    await writeFile(path, gzipSync('x\n'.repeat(lines)));
    const child = start(['import', path, '--json']);
    await stalled(child);
    expect(await peakMegabytes(child)).toBeLessThan(250);
    const { code, stdout, stderr } = await watch(child);
    const report = { loaded: 0, bad: lines, suppressed: 0, resumed_at_line: null, people: 0 };
    expect([code, JSON.parse(stdout)]).toEqual([0, report]);
    expect(stderr.match(/is not valid JSON/g)).toHaveLength(lines);
  });

  test('of a file that changes meanwhile fails and says so', async () => {
    const path = join(folder, 'growing.ndjson');
    await writeFile(path, 'x\n'.repeat(30_000));
    const child = start(['import', path]);
    await stalled(child);
    await appendFile(path, 'y\n');
    const { code, stdout, stderr } = await watch(child);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/\nerror: The file changed while it was read. Import it again\n$/);
  });

  test('whose database connections are cut says so, and goes on where it stopped when it is run again', async () => {
    const people = 20_000;
    const path = join(folder, 'cut.ndjson');
    await writeFile(path, [...generatePeople(people, 8)].map((one) => `${JSON.stringify(one)}\n`).join(''));
    const superuser = postgres(app.superuserUrl, { max: 1, onnotice: () => {} });
    const child = start(['import', path, '--json']);
    const ended = watch(child);
    await expect.poll(() => app.owner`select 1 from catalog_imports where line > 0`).toHaveLength(1);
    await superuser`
      select pg_terminate_backend(pid)
      from pg_stat_activity
      where datname = current_database() and application_name = 'sales-data-api'`;
    await superuser.end();
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/error: .*database/)]);
    const again = await watch(start(['import', path, '--json']));
    const report = JSON.parse(again.stdout) as { loaded: number; resumed_at_line: number | null; people: number };
    expect(report).toMatchObject({ loaded: people, people, resumed_at_line: expect.any(Number) });
  });
});

describe.skipIf(process.platform !== 'linux')('output that cannot be written', () => {
  /** Runs a catalog command with stdout (1) or stderr (2) on a device that is always full. */
  async function onFullDisk(words: string[], full: 1 | 2): Promise<{ code: number; stdout: string; stderr: string }> {
    const device = openSync('/dev/full', 'w');
    const stdio = ['ignore', 'pipe', 'pipe'].map((usual, fd) => (fd === full ? device : usual)) as 'pipe'[];
    const child = start(words, stdio);
    closeSync(device);
    return watch(child);
  }

  test.each([[['generate', '--count', '100000']], [['status']]])(
    'causes a one-line error and exit 1: catalog %s',
    async (words) => {
      const { code, stderr } = await onFullDisk(words, 1);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/^error: The output cannot be written: .*ENOSPC.*\n$/)]);
    },
  );

  test('causes a one-line error and exit 1 for --output too', async () => {
    const { code, stdout, stderr } = await watch(start(['generate', '--count', '100000', '--output', '/dev/full']));
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(/^error: .*disk is full.*\n$/)]);
  });

  test('ends an import that cannot report its bad lines', async () => {
    const path = join(folder, 'unreported.ndjson');
    await writeFile(path, 'x\n'.repeat(50));
    expect(await onFullDisk(['import', path], 2)).toMatchObject({ code: 1, stdout: '' });
  });

  test('because its reader has closed it is no failure', async () => {
    const child = start(['generate', '--count', '1000000']);
    await once(child.stdout!, 'readable');
    child.stdout!.destroy();
    expect(await watch(child)).toEqual({ code: 0, stdout: '', stderr: '' });
  });
});
