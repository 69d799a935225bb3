import { execFile, spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, mkdtemp, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import postgres from 'postgres';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { openEmbeddedPostgres, type EmbeddedPostgres } from '../../src/database/embedded-postgres.ts';

/** A data folder that was used before, and the folder of the current test. */
let used: string;
let folder: string;

const newFolder = async (): Promise<string> => {
  const path = await mkdtemp(join(tmpdir(), 'embedded-postgres-test-'));
  await chmod(path, 0o755); // if the tests run as root, the server runs as another user
  return path;
};

beforeAll(async () => {
  used = await newFolder();
  await close(await openEmbeddedPostgres(used));
  await appendFile(join(used, 'postgres', 'postgresql.conf'), 'fsync = off\n'); // avoids waits for a slow disk
  return () => rm(used, { recursive: true });
});

beforeEach(async () => {
  folder = await newFolder();
  await promisify(execFile)('cp', ['-a', `${used}/.`, folder]);
  return async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL'); // processes that a failed test left behind
    const pid = await serverPid();
    if (await isAlive(pid)) process.kill(pid, 'SIGQUIT');
    await untilDead(pid);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
});

async function serverPid(): Promise<number> {
  return Number.parseInt(await readFile(join(folder, 'postgres', 'postmaster.pid'), 'utf8').catch(() => '0'), 10);
}

/** Returns true if the process runs. A zombie process does not count. */
const isAlive = async (pid: number): Promise<boolean> =>
  /^State:\t[^Z]/m.test(await readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''));

/** A process that ends is seen for a moment after its owner knows of it. */
async function untilDead(pid: number): Promise<void> {
  while (await isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Runs one statement on a connection of its own. */
async function ask(url: string, statement: string): Promise<postgres.Row[]> {
  const sql = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    return await sql.unsafe(statement);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

type Process = ChildProcessByStdio<null, Readable, null> & { pid: number };
const children: Process[] = [];

/** Starts a process that opens the server, prints the owner's URL, and closes the server when it gets a signal. */
async function openElsewhere(): Promise<{ process: Process; url: string; owner?: number }> {
  const module = JSON.stringify(join(import.meta.dirname, '..', '..', 'src', 'database', 'embedded-postgres.ts'));
  const program = `
    const { openEmbeddedPostgres } = await import(${module});
    const server = await openEmbeddedPostgres(${JSON.stringify(folder)});
    const ending = new Promise((resolve) => ['SIGINT', 'SIGTERM'].forEach((signal) => process.on(signal, resolve)));
    const alive = setInterval(() => {}, 1000);
    console.log(JSON.stringify({ url: server.ownerUrl, owner: server.owner }));
    await ending;
    const { default: postgres } = await import('postgres');
    const sql = postgres(server.ownerUrl, { max: 1, fetch_types: false });
    await sql\`select 1\`;
    await sql.end();
    await server.close();
    clearInterval(alive);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
    cwd: join(import.meta.dirname, '..', '..'),
  }) as Process;
  children.push(child);
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return { process: child, ...(JSON.parse(line) as { url: string; owner?: number }) };
}

async function end(child: Process, signal: NodeJS.Signals): Promise<number | null> {
  const exited = once(child, 'exit') as Promise<[number | null]>;
  process.kill(signal === 'SIGINT' ? -child.pid : child.pid, signal); // Ctrl-C sends the signal to the whole process group
  return (await exited)[0];
}

const close = async (...servers: EmbeddedPostgres[]): Promise<void> => {
  for (const server of servers) await server.close();
};

describe('the embedded server', () => {
  test('keeps its data, port and passwords, and hides the passwords from other users', async () => {
    const first = await openEmbeddedPostgres(folder);
    await ask(first.ownerUrl, 'create table kept (id integer)');
    await first.close();
    expect(await isAlive(await serverPid())).toBe(false);
    const second = await openEmbeddedPostgres(folder);
    expect(second.ownerUrl).toBe(first.ownerUrl);
    expect(await ask(second.ownerUrl, 'select * from kept')).toEqual([]);
    expect((await stat(join(folder, 'postgres.json'))).mode & 0o777).toBe(0o600);
    const passwordless = Object.assign(new URL(second.ownerUrl), { password: '' }).href;
    await expect(ask(passwordless, 'select 1')).rejects.toThrow(/password/);
    await second.close();
  });

  test('gives the service a login with few rights, and the owner rights on the database only', async () => {
    const server = await openEmbeddedPostgres(folder);
    const facts = `select current_user::text as login, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls,
      pg_has_role('sales_data_api', 'usage') as works_as_service, current_setting('server_encoding') as encoding
      from pg_roles where rolname = current_user`;
    const rights = { rolsuper: false, rolcreaterole: false, rolcreatedb: false, rolbypassrls: false };
    const common = { ...rights, works_as_service: true, encoding: 'UTF8' };
    expect(await ask(server.ownerUrl, facts)).toEqual([{ login: 'sales_owner', ...common }]);
    expect(await ask(server.serviceUrl, facts)).toEqual([{ login: 'sales_service', ...common }]);
    await ask(server.ownerUrl, 'create extension pg_trgm; create extension btree_gin');
    await expect(ask(server.serviceUrl, 'create table mine ()')).rejects.toThrow(/permission denied/);
    await server.close();
  });

  test('is started once if many processes open an empty folder at the same time, and ends with its owner', async () => {
    await rm(folder, { recursive: true });
    const all = await Promise.all([openElsewhere(), openElsewhere(), openElsewhere()]);
    expect(new Set(all.map(({ url }) => url)).size).toBe(1);
    const [owner, ...others] = all.filter((one) => one.owner === undefined);
    const guests = all.filter((one) => one.owner !== undefined);
    expect([others, guests.map((one) => one.owner)]).toEqual([[], [owner!.process.pid, owner!.process.pid]]);
    const here = await openEmbeddedPostgres(folder);
    expect(here).toMatchObject({ owner: owner!.process.pid, ownerUrl: owner!.url });
    const pid = await serverPid();
    await here.close();
    expect(await end(guests[0]!.process, 'SIGTERM')).toBe(0);
    expect(await isAlive(pid)).toBe(true);
    expect(await end(owner!.process, 'SIGTERM')).toBe(0);
    await untilDead(pid);
  });

  test('whose owner was killed belongs to the next process that opens it', async () => {
    const service = await openElsewhere();
    const pid = await serverPid();
    await end(service.process, 'SIGKILL');
    expect(await isAlive(pid)).toBe(true);
    const heir = await openEmbeddedPostgres(folder);
    expect(heir).toMatchObject({ owner: undefined, ownerUrl: service.url });
    await heir.close();
    expect(await isAlive(await serverPid())).toBe(false);
  });

  test('starts again with its data after it was killed, even if its process id belongs to another process now', async () => {
    const server = await openEmbeddedPostgres(folder);
    await ask(server.ownerUrl, 'create table kept (id integer)');
    const [pid, lock] = [await serverPid(), await readFile(join(folder, 'postgres', 'postmaster.pid'), 'utf8')];
    process.kill(pid, 'SIGKILL');
    await untilDead(pid);
    await server.close();
    const { uid, gid } = await stat(join(folder, 'postgres')); // same user: PostgreSQL ignores processes of other users
    const stranger = spawn('sleep', ['600'], { uid, gid });
    onTestFinished(() => void stranger.kill());
    await writeFile(join(folder, 'postgres', 'postmaster.pid'), lock.replace(/^\d+/, `${stranger.pid}`));
    const again = await openEmbeddedPostgres(folder);
    expect(await ask(again.ownerUrl, 'select * from kept')).toEqual([]);
    await again.close();
  });

  test('tells every process that uses it when it has ended, and why', async () => {
    const [owner, guest] = [await openEmbeddedPostgres(folder), await openEmbeddedPostgres(folder)];
    const reasons: string[] = [];
    for (const server of [owner, guest]) server.watch((reason) => reasons.push(reason));
    const pid = await serverPid();
    process.kill(pid, 'SIGKILL');
    await untilDead(pid);
    await vi.waitFor(() => expect(reasons.length).toBeGreaterThanOrEqual(2), { timeout: 60_000, interval: 50 });
    expect(reasons[0]).toMatch(/FATAL|PANIC|server\.log/);
    await close(guest, owner);
    const again = await openEmbeddedPostgres(folder);
    expect(await ask(again.ownerUrl, 'select 1 as one')).toEqual([{ one: 1 }]);
    await again.close();
  });

  test.skipIf(process.getuid?.() !== 0)('runs for root on a folder that only root can reach', async () => {
    const closed = await mkdtemp(join(tmpdir(), 'closed-')); // mode 0700
    const server = await openEmbeddedPostgres(join(closed, 'data'));
    const elsewhere = await realpath(join(closed, 'data', 'postgres'));
    expect(await ask(server.ownerUrl, 'select 1 as one')).toEqual([{ one: 1 }]);
    await server.close();
    const again = await openEmbeddedPostgres(join(closed, 'data'));
    expect(again.ownerUrl).toBe(server.ownerUrl);
    await again.close();
    await Promise.all([closed, elsewhere].map((path) => rm(path, { recursive: true })));
  });
});
