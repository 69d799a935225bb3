import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { parseConfig } from '../../src/process/config.ts';
import { openDatabase } from '../../src/database/db.ts';
import { DomainError } from '../../src/errors.ts';
import { startFaultyProxy } from './faulty-proxy.ts';

/**
 * A script that runs transactions while its backends are killed and its connections are reset, and prints the results:
 * `node survivor.ts <service's url> <superuser's url> <number of kills>`. Each transaction writes two rows with the
 * same number into the table `pairs`.
 */
const [url, superuserUrl, kills] = process.argv.slice(2) as [string, string, string];
const proxy = await startFaultyProxy(url);
const db = openDatabase(parseConfig({}), proxy.through(url));
const superuser = postgres(superuserUrl, { max: 1, fetch_types: false, onnotice: () => {} });
const seen = {
  running: true,
  committed: [] as number[],
  unavailable: 0,
  other: [] as string[],
  kills: 0,
};
let next = 0;

async function writePair(number: number): Promise<void> {
  await db.transaction(async (tx) => {
    await tx`insert into pairs (number) values (${number})`;
    if (number % 2 === 0) await sleep(Math.random() * 30); // lost while idle, and back in other hands before it goes on
    const [row] = await tx`select count(*)::integer as count from pairs where number = ${number}`;
    if (row!['count'] !== 1) throw new Error(`transaction ${number} sees ${row!['count']} rows of its own`);
    await tx`insert into pairs (number) values (${number})`;
  });
}

async function keepWriting(): Promise<void> {
  while (seen.running) {
    const number = (next += 1);
    await writePair(number).then(() => seen.committed.push(number), note);
  }
}

async function keepReading(): Promise<void> {
  while (seen.running) {
    await db.lookup((sql) => sql`select ${next}::integer as number`).catch(note);
    await db.search((sql) => sql`select ${next}::integer as number`).catch(note);
  }
}

function note(error: unknown): void {
  if (error instanceof DomainError && error.code === 'unavailable') seen.unavailable += 1;
  else seen.other.push(String(error));
}

async function killBackend(): Promise<void> {
  const { count } = await superuser`
    select pg_terminate_backend(pid)
    from pg_stat_activity
    where datname = current_database() and application_name = 'sales-data-api'
    order by random()
    limit 1`;
  seen.kills += count;
}

const work = [...Array.from({ length: 8 }, keepWriting), ...Array.from({ length: 4 }, keepReading)];
while (seen.kills < Number(kills)) {
  const enough = seen.committed.length + 3;
  while (seen.committed.length < enough) await sleep(1);
  if (Math.random() < 0.5) await killBackend();
  else seen.kills += Number(proxy.resetOne());
}
seen.running = false;
await Promise.all(work);
await db.close();
await superuser.end({ timeout: 1 });
await proxy.close();
process.stdout.write(JSON.stringify(seen));
