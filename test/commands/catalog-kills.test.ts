import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { generatePeople } from '../../src/commands/generate-people.ts';
import { temporaryFolder } from '../setup/at-end.ts';
import { startApp, type TestApp } from '../setup/app.ts';
import { nodeEnvironment, runCommand } from '../setup/cli.ts';
import { dropCatalog, need, noElasticsearch, ownCatalog } from '../setup/elasticsearch.ts';

const folder = await temporaryFolder();

test('a killed import into the catalog on Postgres resumes, and no person is lost or duplicated', async () => {
  const app = await startApp();
  await expectToSurviveKills(app, { PATH: process.env['PATH']!, DATABASE_URL: app.url });
}, 240_000);

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
    const { stdout } = await runCommand(['catalog', 'status', '--json'], environment);
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
  const path = join(folder, `${environment['ELASTICSEARCH_INDEX'] ?? 'postgres'}.ndjson`);
  await writeFile(path, [...generatePeople(count, 4)].map((one) => `${JSON.stringify(one)}\n`).join(''));
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
  const { code, stdout } = await runCommand(['catalog', ...words], environment);
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
  const { stdout } = await runCommand(['catalog', 'status', '--json'], environment);
  return JSON.parse(stdout) as Status;
}

/** Waits until the import's saved line is beyond another, or until `stopping` is aborted. Returns the new line. */
async function advanced({ owner }: TestApp, line: number, stopping: AbortSignal): Promise<number | undefined> {
  while (!stopping.aborted) {
    const [unfinished] = await owner<{ line: number }[]>`select line::integer from catalog_imports`;
    if (unfinished && unfinished.line > line) return unfinished.line;
    await sleep(10);
  }
  return undefined;
}
