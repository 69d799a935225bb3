import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody } from '../setup/factories.ts';
import { javaGenerator } from '../setup/generators.ts';

// Clients that public generators make of the OpenAPI document compile, have every operation and can make calls.
const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');
const programs = join(root, 'node_modules', '.bin');
const contract = join(import.meta.dirname, 'openapi.json');

const app = await startApp();
const document = app.fastify.swagger() as unknown as {
  paths?: Record<string, Record<string, { operationId: string }>>;
};
const operations = Object.values(document.paths!)
  .flatMap((path) => Object.values(path))
  .map(({ operationId }) => operationId);
let folder: string;
let url: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'clients-'));
  url = await app.fastify.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('@hey-api/openapi-ts: the client compiles, has every operation and makes calls', async () => {
  const client = join(folder, 'hey-api');
  await run(join(programs, 'openapi-ts'), ['-i', contract, '-o', client], { cwd: root });
  const usage = join(folder, 'usage.ts');
  await writeFile(usage, typescriptUsage);
  const options = ['--noEmit', '--strict', '--target', 'es2022', '--lib', 'es2023,dom,dom.iterable'];
  const modules = ['--module', 'esnext', '--moduleResolution', 'bundler', '--ignoreConfig'];
  await run(process.execPath, [join(root, 'node_modules/typescript7/bin/tsc'), ...options, ...modules, usage]);
  const sdk = (await import(join(client, 'sdk.gen.ts'))) as Record<string, unknown>;
  expect(operations.filter((name) => typeof sdk[name] !== 'function')).toEqual([]);
  const { key, post } = await app.customer();
  const { data } = (await post('/contacts', contactBody({ custom_fields: { plan: 'gold' } }))).body;
  const { call } = (await import(usage)) as { call: (url: string, key: string) => Promise<unknown> };
  expect(await call(url, key)).toEqual({ ids: [data.id], code: 'validation_failed', name: 'Spring' });
});

const typescriptUsage = `
import { createClient } from './hey-api/client';
import { createContactList, listContacts } from './hey-api/sdk.gen';

export async function call(baseUrl: string, key: string) {
  const client = createClient({ baseUrl, headers: { Authorization: \`X-API-Key \${key}\` } });
  const filters = { 'custom_fields.plan': 'gold', score: { lte: 100 }, _or: [{ first_name: ['Ada', 'Grace'] }] };
  const page = await listContacts({ client, body: { filters, order_by: [{ field: 'score', direction: 'DESC' }] } });
  const wrong = await listContacts({ client, body: { paginate: { limit: 1000 } } });
  const list = await createContactList({ client, body: { name: 'Spring' } });
  const code = wrong.error && 'code' in wrong.error ? wrong.error.code : undefined;
  return { ids: page.data!.map((contact) => contact.id), code, name: list.data!.name };
}
`;

/** For programs that run once: Java's slow compiler would take most of their time. */
const quickJava = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];
const needJava = javaGenerator ? '' : ' (needs Maven and openapi-generator in ~/.m2: see .ci/run)';
describe.runIf(javaGenerator)(`openapi-generator for Java${needJava}`, () => {
  test('the client compiles and has every operation', async () => {
    const client = join(folder, 'java');
    const options = ['-g', 'java', '--additional-properties=hideGenerationTimestamp=true'];
    await run('java', [...quickJava, '-jar', javaGenerator!, 'generate', '-i', contract, '-o', client, ...options]);
    const apis = join(client, 'src', 'main', 'java', 'org', 'openapitools', 'client', 'api');
    const texts = await Promise.all((await readdir(apis)).map((file) => readFile(join(apis, file), 'utf8')));
    expect(operations.filter((name) => !texts.join('').includes(` ${name}(`))).toEqual([]);
    const skipped = ['-Dmaven.test.skip=true', '-Dmaven.javadoc.skip=true', '-Dmaven.source.skip=true'];
    await run('mvn', ['-q', '-B', ...skipped, 'compile'], {
      cwd: client,
      env: { ...process.env, MAVEN_OPTS: quickJava.join(' ') },
    });
  }, 1_200_000); // Maven fetches the libraries of the client once
});
