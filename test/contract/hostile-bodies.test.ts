import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, request, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { seeded } from '../../src/commands/generate-people.ts';
import { startApp } from '../setup/app.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';
import { declaredRoutes, type DeclaredRoute } from './declared.ts';
import { attacksOn, maxFaults, type Attack } from './hostile-bodies.ts';
import { credentialOf, knownOf, makeRecords, pathOf, type Records } from './records.ts';
import { seed } from '../setup/seed.ts';

/** `HOSTILE_BODIES` sets the number of bodies. */
const bodies = Number(process.env['HOSTILE_BODIES'] ?? 100);

/**
 * Memory of the service itself, and memory that one body may need in addition (MiB). A process that needs more dies.
 */
const heap = { service: 80, body: 100 };

/** Time limit of one request (ms): one second, with five times slack. */
const maxMs = 5_000;

// A route that takes a file has no schema of its body.
const routes = (await declaredRoutes()).documented.filter(({ method, body }) => method !== 'HEAD' && body);
const app = await startApp();
const agent = new Agent({ keepAlive: true });
let server: ServerProcess;
let records: Records;

beforeAll(async () => {
  records = await makeRecords(app);
  const entry = [`--max-old-space-size=${heap.service + heap.body}`, 'src/cli.ts', 'serve', '--json'];
  server = await startServerProcess(app.url, {}, entry);
});
afterAll(() => agent.destroy());

/** Returns the items in an order that depends on the seed alone. */
function shuffled<T>(items: T[]): T[] {
  const random = seeded(seed);
  const ranked = items.map((item) => ({ item, rank: random.next() }));
  return ranked.toSorted((one, other) => one.rank - other.rank).map(({ item }) => item);
}

interface Attempt extends Attack {
  route: DeclaredRoute;
}

/** The same schema is the same validator: routes without a body, for example, are one. */
const readerOf = ({ body, bodyLimit }: DeclaredRoute): string => `${bodyLimit} ${JSON.stringify(body)}`;

/** Chooses random attempts that include each schema of a body, each kind, and all attempts with the most faults. */
function chosen(): Attempt[] {
  const every = routes.flatMap((route) => attacksOn(route.body!).map((attack) => ({ ...attack, route })));
  const attempts = shuffled(every);
  const times = new Map<unknown, number>();
  const isWanted = ({ route, kind }: Attempt): boolean => {
    const reader = readerOf(route);
    const [ofReader, ofKind] = [times.get(reader) ?? 0, times.get(kind) ?? 0];
    times.set(reader, ofReader + 1).set(kind, ofKind + 1);
    return ofReader < 1 || ofKind < 1 || kind === maxFaults;
  };
  const wanted = new Set(attempts.filter(isWanted));
  return [...wanted, ...attempts.filter((one) => !wanted.has(one))].slice(0, Math.max(bodies, wanted.size));
}

/** Sends a body and reads the response. */
async function send({ route }: Attempt, text: string): Promise<{ status: number; payload: Buffer }> {
  const sent = request(`${server.url}${pathOf(route, records)}`, {
    agent,
    method: route.method,
    headers: {
      ...credentialOf(route, records),
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    },
  });
  sent.end(text);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode!, payload: await buffer(answer) };
}

/**
 * Returns the CPU time of the server so far (ms). It is at least as long as its event loop was blocked, and does not
 * depend on how busy the machine is. Returns the time of day on systems that do not report CPU time.
 */
function spentMs(): number {
  if (process.platform !== 'linux') return performance.now();
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

test('every route rejects hostile bodies quickly, with a short response and within its memory', async () => {
  for (const attempt of chosen()) {
    const what = `${attempt.route.name}: ${attempt.kind} at "${attempt.pointer}" (SEED=${seed})`;
    const text = attempt.text(knownOf(records, attempt.route));
    expect(Buffer.byteLength(text), what).toBeLessThanOrEqual(1024 * 1024);
    const before = spentMs();
    const { status, payload } = await send(attempt, text).catch((error: unknown) => {
      throw new Error(`${what}: no answer`, { cause: error });
    });
    expect(spentMs() - before, what).toBeLessThan(maxMs);
    expect(status, what).toBe(Buffer.byteLength(text) > attempt.route.bodyLimit ? 413 : 400);
    expect(payload.length, what).toBeLessThanOrEqual(64 * 1024);
    const { message, errors = [] } = JSON.parse(payload.toString()) as ErrorAnswer;
    expect(errors.length, what).toBeLessThanOrEqual(100);
    for (const one of [message, ...errors.flatMap((fault) => [fault.path, fault.message])])
      expect(one.length, what).toBeLessThanOrEqual(500);
  }
}, 300_000);

interface ErrorAnswer {
  message: string;
  errors?: { path: string; message: string }[];
}
