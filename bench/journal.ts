import { setTimeout as sleep } from 'node:timers/promises';
import { importFile, startService, type RunningService } from './importing.ts';
import { alternate, load, median } from './run.ts';

/** Writers at once. */
const callers = 32;
const pageSize = 1_000;
/** Rows of an imported file. */
const fileRows = 100_000;

/**
 * Writes of one customer and of eight, also beside a snapshot that stays open as a backup's does, and the feed at the end
 * of a long journal. All is written through the service.
 * @param rows rows of the journal whose end is read
 * @param minutes how long the snapshot is open before its last measurement
 */
export async function benchJournal(rows: number, minutes: number, rounds: number): Promise<void> {
  const service = await startService();
  const keys = [];
  for (let i = 0; i < 8; i += 1) keys.push((await service.customer()).key);
  const base = `${service.serve.url}/api/ext`;
  const creates = (some: string[]) => async () => {
    const each = some.map((key) =>
      load(base, [create], callers / some.length, 4, { authorization: `X-API-Key ${key}` }),
    );
    return (await Promise.all(each)).reduce((sum, { rate }) => sum + rate, 0);
  };
  const first = keys.slice(0, 1);
  const rates = await alternate(rounds, { one: creates(first), eight: creates(keys) });
  print(`creates/s by ${callers} callers: one customer, eight`, rates.one, rates.eight);
  print('  ratio', rates.eight / rates.one);

  await readEnd(service, rows, rounds);

  let beside = 0;
  await service.owner.begin('isolation level repeatable read', async (sql) => {
    await sql`select 1 from journal limit 1`; // takes the snapshot
    const end = performance.now() + minutes * 60_000;
    do beside = await creates(first)();
    while (performance.now() < end);
  });
  print(`creates/s of one customer, snapshot open for ${minutes} min`, beside);
  print('  ratio to without', beside / rates.one);
  await service.stop();
}

const create = {
  method: 'POST' as const,
  path: '/contacts',
  body: { first_name: 'Ada', last_name: 'Lovelace', work_email: 'ada@example.com', phone_numbers: [] },
};

/** Fills a customer's journal by imports, and reads its last page, and pages in the middle. */
async function readEnd(service: RunningService, rows: number, rounds: number): Promise<void> {
  const { key } = await service.customer();
  for (let done = 0; done < rows; done += fileRows) {
    const lines = Array.from({ length: fileRows }, (_, i) => `p${done + i},Last${i},p${done + i}@example.com`);
    const file = ['external_id,last_name,work_email', ...lines].join('\n');
    await importFile(service.serve, key, { mode: 'create' }, file);
  }
  const answer = async (path: string, body?: object) => {
    const response = await fetch(`${service.serve.url}/api/ext${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `X-API-Key ${key}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const read = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${read}`);
    return response.headers.get('x-next-cursor');
  };
  const timed = async (...call: Parameters<typeof answer>) => {
    const begun = performance.now();
    await answer(...call);
    return performance.now() - begun;
  };
  let [cursor, last] = [undefined as string | undefined, undefined as string | undefined];
  const pages: number[] = [];
  for (;;) {
    const begun = performance.now();
    const next = await answer('/events/list', { paginate: { limit: pageSize, ...(cursor && { cursor }) } });
    pages.push(performance.now() - begun);
    if (next === null || next === cursor || pages.length * pageSize >= rows) break;
    [last, cursor] = [cursor, next];
  }
  print(
    `pages of ${pageSize} events of ${pages.length * pageSize}, first and median of all`,
    pages[0]!,
    median(pages),
    'ms',
  );
  await sleep(1_000);
  const times = await alternate(rounds * 5, {
    end: () => timed('/events/list', { paginate: { limit: pageSize, cursor: last! } }),
    start: () => timed('/events/list', { paginate: { limit: pageSize } }),
  });
  print('  the last, the first again (≤ 20)', times.end, times.start, 'ms');
  const begun = performance.now();
  await answer('/contacts/digest', {});
  print(`digest of ${rows} contacts (≤ 2 s)`, performance.now() - begun, 'ms');
}

function print(what: string, ...figures: (string | number)[]): void {
  const shown = figures.map((figure) =>
    typeof figure === 'number' ? (figure < 100 ? figure.toFixed(2) : Math.round(figure)) : figure,
  );
  process.stdout.write(`  ${what.padEnd(60)}${shown.join('  ')}\n`);
}
