import { describe, expect, test } from 'vitest';
import { begin, contextOf, echo, verifyTurn } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { runCommand, type Run } from '../setup/cli.ts';

const app = await startApp();
const unknownId = '01990000-0000-7000-8000-000000000000';

const run = (line: string[]): Promise<Run> => runCommand(line, { DATABASE_URL: app.url });

/** Runs a command line with `--json` and returns its result. */
async function json(line: string[]) {
  const { code, stdout, stderr } = await run([...line, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

const move = (verb: string, customer: string, amount: string, ...more: string[]) => [
  'credits',
  verb,
  '--customer',
  customer,
  '--pool',
  'subscription',
  '--amount',
  amount,
  ...more,
];

describe('credits', () => {
  test('grant and adjust change a balance and write ledger entries', async () => {
    const customer = await app.customer();
    await json(move('grant', customer.id, '100', '--note', 'plan of March'));
    const moved = await json(move('adjust', customer.id, '-30'));
    const none = { balance: 0, reserved: 0 };
    expect(moved).toEqual({
      customer_id: customer.id,
      credits: { subscription: { balance: 70, reserved: 0 }, verification: none },
    });
    expect((await customer.post('/customer/credits/ledger')).body).toMatchObject([
      { kind: 'adjust', amount: -30, balance_after: 70, note: null },
      { kind: 'grant', amount: 100, balance_after: 100, note: 'plan of March' },
    ]);
    const { code, stdout } = await run(move('grant', customer.id, '1'));
    expect([code, stdout]).toEqual([
      0,
      'POOL          BALANCE  RESERVED\nsubscription  71       0\nverification  0        0\n',
    ]);
  });

  test('adjust takes at most the balance, and grant and adjust reject unknown customers', async () => {
    const customer = await app.customer();
    const short = await run(move('adjust', customer.id, '-1'));
    expect(short).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('0 are available') });
    expect(await run(move('grant', unknownId, '1'))).toMatchObject({ code: 1, stdout: '' });
  });

  test('check finds no fault in the work of the service', async () => {
    const customer = await app.customer();
    const turn = (limit: number) => verifyTurn(echo(limit))(contextOf(app), { customerId: customer.id });
    await begin(app, customer, 5);
    await turn(5);
    const cancelled = await begin(app, customer, 5);
    await turn(2);
    await customer.post(`/service-handler/${cancelled}/cancel`);
    await begin(app, customer, 5);
    await turn(3);
    await begin(app, customer, 5);
    const { database, faults, customers } = await json(['credits', 'check']);
    const { hostname, port, pathname, password } = new URL(app.url);
    expect(database).toEqual({ host: hostname, port, name: pathname.slice(1) });
    expect(faults).toEqual([]);
    expect(customers).toBeGreaterThan(0);
    const { stdout } = await run(['credits', 'check']);
    expect(stdout).toContain(`Checked database ${pathname.slice(1)} on ${hostname}, port ${port}\n`);
    expect(stdout).not.toContain(password || 'postgres:'); // a distributed database of a test has no passwords
    expect(await run(['credits', 'check'])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/match the ledger\n$/),
    });
  });

  // Changes as only the database owner can make them. Changes that violate a constraint are not tried.
  const tampering: [what: string, text: string, fault: RegExp][] = [
    [
      'a balance',
      'update credit_balances set available = available + 1 where customer_id = $1',
      /the sums of the ledger are/,
    ],
    [
      'an amount',
      "update credit_entries set amount = amount + 1 where customer_id = $1 and kind = 'grant'",
      /after the entry are/,
    ],
    [
      'a missing entry',
      "delete from credit_entries where customer_id = $1 and kind = 'charge'",
      /expected entry number|after the entry are|the ledger has/,
    ],
    [
      'a balance after',
      'update credit_entries set balance_after = balance_after + 1 where customer_id = $1 and number = 2',
      /after the entry are/,
    ],
    [
      "a job's charge",
      'update jobs set charged = charged - 1, refunded = refunded + 1 where customer_id = $1',
      /refunded \d+; the ledger has/,
    ],
    [
      "a job's count",
      'update jobs set total = total + 1, skipped = skipped + 1 where customer_id = $1',
      /items; its results have/,
    ],
    ['a missing result', 'delete from job_results where customer_id = $1 and position = 1', /items; its results have/],
  ];

  test.each(tampering)('check finds %s that was changed by hand, and exits 1', async (_, text, fault) => {
    const customer = await app.customer();
    await begin(app, customer, 5);
    await verifyTurn(echo())(contextOf(app), { customerId: customer.id });
    await app.owner.begin(async (sql) => {
      await sql.unsafe(text, [customer.id]);
    });
    const { code, stdout, stderr } = await run(['credits', 'check', '--json']);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: The credits do not match the ledger: \d+ faults?\n$/),
    ]);
    const found = JSON.parse(stdout).faults.filter((one: { customer_id: string }) => one.customer_id === customer.id);
    expect(found).toContainEqual({
      customer_id: customer.id,
      of: expect.any(String),
      fault: expect.stringMatching(fault),
    });
  });
});
