import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { generatePeople } from '../../src/commands/generate-people.ts';
import { temporaryFolder } from '../setup/at-end.ts';
import { startApp } from '../setup/app.ts';
import { runCommand } from '../setup/cli.ts';

const folder = await temporaryFolder();

const ndjson = (count: number, seed: number) =>
  [...generatePeople(count, seed)].map((one) => `${JSON.stringify(one)}\n`);

async function fileOf(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

describe('catalog on Postgres', async () => {
  const app = await startApp();
  const { catalog } = app;
  const environment = { PATH: process.env['PATH']!, DATABASE_URL: app.url };
  const run = async (words: string[], input?: string | Buffer) => {
    const { code, stdout, stderr } = await runCommand(['catalog', ...words, '--json'], environment, input);
    return { code, stderr, answer: stdout === '' ? undefined : (JSON.parse(stdout) as Record<string, unknown>) };
  };

  test('import reads a file, a gzipped file and standard input, and reports the numbers of lines', async () => {
    const lines = ndjson(30, 1);
    const plain = await fileOf('a.ndjson', [...lines.slice(0, 10), 'bad\n'].join(''));
    expect(await run(['import', plain])).toEqual({
      code: 0,
      stderr: 'line 11: is not valid JSON\n',
      answer: { loaded: 10, bad: 1, suppressed: 0, resumed_at_line: null, people: 10 },
    });
    const packed = await fileOf('b.ndjson.gz', gzipSync(lines.slice(10, 20).join('')));
    expect(await run(['import', packed])).toMatchObject({ code: 0, answer: { loaded: 10 } });
    expect(await run(['import', '-'], lines.slice(20).join(''))).toMatchObject({ code: 0, answer: { loaded: 10 } });
    expect((await run(['status'])).answer).toMatchObject({ engine: 'postgres', people: 30, unfinished_imports: [] });
  });

  test('with --strict an import with bad lines exits 1, but imports the good lines', async () => {
    const before = await catalog.count({ criteria: [] });
    const path = await fileOf('strict.ndjson', ['bad\n', ...ndjson(3, 2)].join(''));
    expect(await run(['import', path, '--strict'])).toMatchObject({ code: 1, answer: { loaded: 3, bad: 1 } });
    expect(await catalog.count({ criteria: [] })).toBe(before + 3);
  });

  test('with wrong arguments it exits 2 and prints an error', async () => {
    for (const words of [
      ['import'],
      ['import', join(folder, 'none.ndjson')],
      ['import', '-', '--format', 'xml'],
      ['remove', '--id', 'x'],
    ]) {
      const { code, stderr } = await run(words);
      expect([words, code]).toEqual([words, 2]);
      expect(stderr).toMatch(/^error: /);
    }
  });

  test('generate writes people that import accepts, the same for the same seed', async () => {
    const { stdout } = await runCommand(['catalog', 'generate', '--count', '50', '--seed', '3'], environment);
    expect(stdout).toBe(ndjson(50, 3).join(''));
    expect((await run(['generate', '--count', '50', '--seed', '3'])).answer).toEqual([...generatePeople(50, 3)]);
    const output = join(folder, 'made.ndjson');
    expect((await run(['generate', '--count', '50', '--seed', '3', '--output', output])).answer).toEqual({
      count: 50,
      seed: 3,
      output,
    });
    expect(await run(['import', output])).toMatchObject({ answer: { loaded: 50, bad: 0 } });
  });

  test('remove deletes people, and reindex keeps all others', async () => {
    const [one] = await catalog.search({ criteria: [], order: [] }, { limit: 1 });
    expect((await run(['remove', '--id', one!._id])).answer).toEqual({ removed: 1 });
    const people = await catalog.count({ criteria: [] });
    expect((await run(['reindex'])).answer).toEqual({ people });
  });
});
