import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { startServerProcess, type ServerProcess } from '../setup/server-process.ts';
import { declaredRoutes, type DeclaredRoute } from './declared.ts';
import { attacksOn, mostFaults, type Attack } from './hostile-bodies.ts';
import { knownOf, makeRecords, openSession, pathOf, type Records } from './records.ts';

/** Chooses the bodies. `HOSTILE_SEED` repeats a run, `HOSTILE_BODIES` sets how many there are. */
const seed = Number(process.env['HOSTILE_SEED'] ?? Date.now() % 1_000_000);
const bodies = Number(process.env['HOSTILE_BODIES'] ?? 100);

/** What the service needs itself, and what a body may take beside it, in MiB: a process that needs more dies. */
const heap = { service: 80, body: 100 };

/** A second, with five times slack. */
const mostMs = 5_000;

const routes = (await declaredRoutes()).documented.filter(({ method }) => method !== 'HEAD');
const t = await startApp();
const agent = new Agent({ keepAlive: true });
let server: ServerProcess;
let records: Records;
let session: string;

beforeAll(async () => {
  records = await makeRecords(t);
  session = await openSession(t, records.customer.id, records.customer.adminId);
  const entry = [`--max-old-space-size=${heap.service + heap.body}`, 'src/cli.ts', 'serve', '--json'];
  server = await startServerProcess(t.url, {}, entry);
});
afterAll(() => agent.destroy());

const shuffled = <T>(items: T[], random: () => number): T[] =>
  items
    .map((item) => ({ item, rank: random() }))
    .toSorted((one, other) => one.rank - other.rank)
    .map(({ item }) => item);

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
function randomFrom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Attempt extends Attack {
  route: DeclaredRoute;
}

/** Attempts at random, and among them each route, each kind and all that have the most faults. */
function chosen(): Attempt[] {
  const every = routes.flatMap((route) => attacksOn(route.body!).map((attack) => ({ ...attack, route })));
  const attempts = shuffled(every, randomFrom(seed));
  const times = new Map<unknown, number>();
  const isWanted = ({ route, kind }: Attempt): boolean => {
    const [ofRoute, ofKind] = [times.get(route) ?? 0, times.get(kind) ?? 0];
    times.set(route, ofRoute + 1).set(kind, ofKind + 1);
    return ofRoute < 1 || ofKind < 1 || kind === mostFaults;
  };
  const wanted = new Set(attempts.filter(isWanted));
  return [...wanted, ...attempts.filter((one) => !wanted.has(one))].slice(0, Math.max(bodies, wanted.size));
}

/** Sends a body and reads the answer. */
async function send({ route }: Attempt, text: string): Promise<{ status: number; payload: Buffer }> {
  const { key } = records.customer;
  const sent = request(`${server.url}${pathOf(route, records)}`, {
    agent,
    method: route.method,
    headers: {
      authorization: 'session' in route.access ? `Bearer ${session}` : `X-API-Key ${key}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    },
  });
  sent.end(text);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode!, payload: await buffer(answer) };
}

/**
 * Processor time of the server so far, in ms: no shorter than its event loop stood still, and the same on a busy machine.
 * Where the system does not tell, the time of day.
 */
function spentMs(): number {
  if (process.platform !== 'linux') return performance.now();
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

test('every route refuses hostile bodies in time, in brief and within its memory', async () => {
  for (const attempt of chosen()) {
    const what = `${attempt.route.name}: ${attempt.kind} at "${attempt.pointer}" (HOSTILE_SEED=${seed})`;
    const text = attempt.text(knownOf(records));
    expect(Buffer.byteLength(text), what).toBeLessThanOrEqual(1024 * 1024);
    const before = spentMs();
    const { status, payload } = await send(attempt, text).catch((error: unknown) => {
      throw new Error(`${what}: no answer`, { cause: error });
    });
    expect(spentMs() - before, what).toBeLessThan(mostMs);
    expect(status, what).toBe(400);
    expect(payload.length, what).toBeLessThanOrEqual(64 * 1024);
    const { message, errors } = JSON.parse(payload.toString()) as ErrorAnswer;
    expect(errors.length, what).toBeLessThanOrEqual(100);
    for (const one of [message, ...errors.flatMap((fault) => [fault.path, fault.message])])
      expect(one.length, what).toBeLessThanOrEqual(500);
  }
}, 300_000);

interface ErrorAnswer {
  message: string;
  errors: { path: string; message: string }[];
}
