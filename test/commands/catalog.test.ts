import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, test } from 'vitest';
import { generatePeople } from '../../src/demo/generate-people.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { nodeEnvironment, runCli } from '../setup/cli.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';

const folder = await mkdtemp(join(tmpdir(), 'catalog-'));
afterAll(() => rm(folder, { recursive: true }));

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
    const { code, stdout, stderr } = await runCli(['catalog', ...words, '--json'], environment, input);
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
      ['import', 'x.txt'],
      ['import', '-', '--format', 'xml'],
      ['generate'],
      ['remove', '--id', 'x'],
    ]) {
      const { code, stderr } = await run(words);
      expect([words, code]).toEqual([words, 2]);
      expect(stderr).toMatch(/^error: /);
    }
  });

  test('generate writes people that import accepts, the same for the same seed', async () => {
    const { stdout } = await runCli(['catalog', 'generate', '--count', '50', '--seed', '3'], environment);
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

  test(
    'a killed import resumes, and no person is lost or duplicated',
    () => expectToSurviveKills(app, environment),
    240_000,
  );
});

describe.skipIf(noElasticsearch)(`catalog on Elasticsearch ${need}`, async () => {
  const own = noElasticsearch ? {} : await ownCatalog({ ELASTICSEARCH_TIMEOUT_MS: '4000' });
  const app = await startApp();
  const environment = { PATH: process.env['PATH']!, DATABASE_URL: app.url, ...own };
  afterAll(async () => {
    if (!noElasticsearch) await dropCatalog(own);
  });

  test(
    'a killed import resumes, and no person is lost or duplicated',
    () => expectToSurviveKills(app, environment),
    240_000,
  );

  test('status shows the state of the cluster', async () => {
    const { stdout } = await runCli(['catalog', 'status', '--json'], environment);
    expect(JSON.parse(stdout)).toMatchObject({
      engine: 'elasticsearch',
      unlocks_behind: 0,
      details: { nodes: expect.any(Number) },
    });
  });
});

/**
 * Kills an import twice, each time after it has saved some progress. Then expects a third run to import everybody once.
 */
async function expectToSurviveKills(app: TestApp, environment: Record<string, string>): Promise<void> {
  const count = 20_000;
  const path = await fileOf(
    `kill-${environment['ELASTICSEARCH_INDEX'] ?? 'postgres'}.ndjson`,
    ndjson(count, 4).join(''),
  );
  const words = ['import', path, '--json'];
  const before = await status(environment);
  let line = 1;
  for (let kills = 0; kills < 2; kills += 1) {
    const child = spawn(process.execPath, [join(import.meta.dirname, '../../src/cli.ts'), 'catalog', ...words], {
      env: { ...nodeEnvironment, ...environment },
    });
    const ended = once(child, 'exit');
    const stopping = new AbortController();
    const reached = await Promise.race([ended.then(() => undefined), advanced(app, line, stopping.signal)]);
    stopping.abort();
    child.kill('SIGKILL');
    await ended;
    expect(reached, 'the import was killed before its end').toBeDefined();
    line = reached!;
  }
  const { code, stdout } = await runCli(['catalog', ...words], environment);
  const report = JSON.parse(stdout) as { loaded: number; bad: number; resumed_at_line: number };
  expect([code, report.loaded, report.bad]).toEqual([0, count, 0]);
  expect(report.resumed_at_line).toBeGreaterThanOrEqual(line);
  const after = await status(environment);
  expect(after.people - before.people).toBe(count);
  expect(after.unfinished_imports).toEqual([]);
}

interface Status {
  people: number;
  unfinished_imports: { line: number }[];
}

async function status(environment: Record<string, string>): Promise<Status> {
  const { stdout } = await runCli(['catalog', 'status', '--json'], environment);
  return JSON.parse(stdout) as Status;
}

/** Waits until the import's saved position is beyond a line, or until `stopping` is aborted. Returns the new line. */
async function advanced({ owner }: TestApp, line: number, stopping: AbortSignal): Promise<number | undefined> {
  while (!stopping.aborted) {
    const [unfinished] = await owner<{ line: number }[]>`select line::integer from catalog_imports`;
    if (unfinished && unfinished.line > line) return unfinished.line;
    await sleep(10);
  }
  return undefined;
}
