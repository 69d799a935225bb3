import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';

/**
 * The folders of `src`, from the outermost inwards. A module imports from its own folder and from folders below it,
 * never upwards. A folder within a folder has the place of the outer one, unless it is named here itself.
 */
const rooms = [
  ['cli.ts'],
  ['commands'],
  ['app.ts'],
  ['routes', 'pages'],
  ['agents'],
  ['plugins'],
  ['jobs', 'accounts'],
  ['catalog', 'verification'],
  ['queries/history'],
  ['queries/accounts'],
  ['queries/jobs'],
  ['queries/crm'],
  ['queries/records'],
  ['validation'],
  ['filters', 'files'],
  ['database'],
  ['access'],
  ['schemas'],
  ['text'],
  ['process', 'errors.ts'],
];

/** Packages that only the named modules may import. Any module may import their types. */
const keepers: Record<string, RegExp> = {
  postgres: /^database\/(connection|migrate|embedded-postgres)\.ts$/,
  fastify: /^plugins\/(http|docs\/renderer)\.ts$/,
  ajv: /^validation\/validator\.ts$/,
  pino: /^process\/logger\.ts$/,
  'pino-pretty': /^process\/logger\.ts$/,
  '@elastic/elasticsearch': /^catalog\/elasticsearch\//,
  commander: /^(cli\.ts|commands\/)/,
  'rate-limiter-flexible': /^access\/rate-limits\.ts$/,
  '@prometheus-io/client': /^(process|plugins)\/metrics\.ts$/,
  '@opentelemetry/api': /^process\/opentelemetry\.ts$/,
  '@opentelemetry/sdk-trace-base': /^process\/opentelemetry\.ts$/,
  ioredis: /^access\/rate-limits\.ts$/,
  yauzl: /^files\/xlsx-parts\.ts$/,
  saxes: /^files\/xlsx-parts\.ts$/,
  'csv-stringify': /^files\/write-records\.ts$/,
  '@modelcontextprotocol/server': /^agents\/server\.ts$/,
  undici: /^accounts\/webhook-sender\.ts$/,
  standardwebhooks: /^accounts\/webhook-sender\.ts$/,
  'structured-headers': /^plugins\/rate-limits\.ts$/,
};

const src = join(import.meta.dirname, '..', 'src');
const modules = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));
const textOf = (module: string): string => readFileSync(join(src, module), 'utf8');

interface Import {
  /** A package, or the path of a module below `src`. */
  name: string;
  typeOnly: boolean;
  /** Imported when it is needed. */
  isLate: boolean;
}

/** Returns all imports of a module, static and dynamic. A package that is required is required by the name `load`. */
function importsOf(module: string): Import[] {
  const statement =
    /^(?:import|export)( type)?\b[^;]*?\bfrom '([^']+)'|^import '([^']+)'|\b(?:import|load|URL)\(\s*'([^']+)'/gm;
  return [...textOf(module).matchAll(statement)].map((match) => {
    const name = (match[2] ?? match[3] ?? match[4])!;
    const path = name.startsWith('.') ? relative(src, join(src, dirname(module), name)) : name;
    return { name: path, typeOnly: match[1] !== undefined, isLate: match[4] !== undefined };
  });
}

const imports = new Map(modules.map((module) => [module, importsOf(module)]));

/** Returns the modules of `src` that a module imports, types included. */
const own = (module: string): string[] => imports.get(module)!.flatMap(({ name }) => (imports.has(name) ? [name] : []));

function rankOf(module: string): number {
  const rank = rooms.findIndex((names) => names.some((name) => module === name || module.startsWith(`${name}/`)));
  expect(rank, `${module} has a place in the table`).toBeGreaterThanOrEqual(0);
  return rank;
}

/** Returns the first import cycle through `module`, if any. */
function circleFrom(module: string, trail: string[] = [], seen = new Set<string>()): string[] | undefined {
  for (const next of own(module)) {
    if (next === trail[0] || (trail.length === 0 && next === module)) return [...trail, module, next];
    if (seen.has(next)) continue;
    seen.add(next);
    const circle = circleFrom(next, [...trail, module], seen);
    if (circle) return circle;
  }
  return undefined;
}

test('the test finds the imports of every module', () => {
  expect(own('app.ts').length).toBeGreaterThan(10);
  const unknown = [...imports.values()].flat().filter(({ name }) => name.endsWith('.ts') && !imports.has(name));
  expect(unknown).toEqual([]);
});

test('no module imports from a folder above its own', () => {
  const upward = modules.flatMap((from) =>
    own(from).flatMap((to) => (rankOf(to) < rankOf(from) ? [`${from} → ${to}`] : [])),
  );
  expect(upward).toEqual([]);
});

test('no module has more than 500 lines besides its imports', () => {
  const text = (module: string) => textOf(module).replaceAll(/^import\b[^;]*;\n/gm, '');
  const long = modules.filter((module) => text(module).split('\n').length > 501);
  expect(long.filter((module) => module !== 'process/config.ts')).toEqual([]); // the table of all settings
});

test('at the root stand the entry, the app and the errors', () => {
  expect(modules.filter((module) => !module.includes('/')).toSorted()).toEqual(['app.ts', 'cli.ts', 'errors.ts']);
});

test('every module but the entry is imported by another', () => {
  const imported = new Set(modules.flatMap(own));
  const reached = (module: string) => imported.has(module) || module === 'cli.ts' || module.endsWith('.d.ts');
  expect(modules.filter((module) => !reached(module))).toEqual([]);
});

test('app.ts registers every file of routes', () => {
  const text = textOf('app.ts');
  const names = new Map(
    [...text.matchAll(/^import (\w+) from '\.\/(routes\/[^']+)'/gm)].map((one) => [one[2], one[1]]),
  );
  const routes = modules.filter((module) => module.startsWith('routes/'));
  expect(routes.filter((module) => !text.includes(`app.register(${names.get(module)}`))).toEqual([]);
});

test('a worker loads neither the API nor its pages: they take 30 MiB of memory', () => {
  const loaded = new Set(['commands/work.ts']);
  for (const module of loaded)
    for (const { name, typeOnly } of imports.get(module) ?? []) if (!typeOnly) loaded.add(name);
  expect(loaded).toContain('routes/health.ts');
  expect([...loaded].filter((name) => name === 'app.ts' || name.startsWith('pages/'))).toEqual([]);
});

test('a server loads what few requests need when they need it: it takes 50 MiB of memory', () => {
  const loaded = new Set(['commands/serve.ts']);
  for (const module of loaded)
    for (const { name, typeOnly, isLate } of imports.get(module) ?? []) if (!typeOnly && !isLate) loaded.add(name);
  expect(loaded).toContain('routes/contacts.ts');
  const late = [
    'jobs/workers.ts',
    'agents/server.ts',
    'accounts/webhook-sender.ts',
    'database/embedded-postgres.ts',
    'pg-boss',
  ];
  const packages = ['undici', 'ioredis', '@elastic/elasticsearch', 'libphonenumber-js/max', '@faker-js/faker'];
  expect([...late, ...packages].filter((name) => loaded.has(name))).toEqual([]);
});

test('there is no import cycle', () => {
  expect(modules.flatMap((module) => circleFrom(module)?.join(' → ') ?? [])).toEqual([]);
});

test.each(Object.entries(keepers))('only the allowed modules import the package %s', (name, allowed) => {
  const uses = (one: Import) => !one.typeOnly && (one.name === name || one.name.startsWith(`${name}/`));
  const importers = modules.filter((module) => imports.get(module)!.some(uses));
  expect(importers.length).toBeGreaterThan(0);
  expect(importers.filter((module) => !allowed.test(module))).toEqual([]);
});

test('only config.ts reads the environment', () => {
  expect(modules.filter((module) => /process\s*\.\s*env|from 'node:process'/.test(textOf(module)))).toEqual([
    'process/config.ts',
  ]);
});

test('no module joins signals with `AbortSignal.any`, whose listeners live as long as its sources', () => {
  const text = (module: string) => textOf(module).replaceAll(/^ *(\/\/|\/?\*).*$/gm, '');
  expect(modules.filter((module) => /AbortSignal\s*\.\s*any/.test(text(module)))).toEqual([]);
});

test("modules read the caller's address from `request.address`, which respects trusted proxies", () => {
  expect(modules.filter((module) => /\brequest\.ips?\b/.test(textOf(module).replaceAll(/`[^`]*`/g, '')))).toEqual([]);
});

test('routes and plugins contain no SQL', () => {
  const rooms = modules.filter((module) => /^(routes|plugins)\//.test(module));
  expect(rooms.filter((module) => /\b(sql|tx)(<[^`]*>)?`|\.unsafe\(/.test(textOf(module)))).toEqual([]);
});
