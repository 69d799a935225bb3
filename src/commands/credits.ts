import { InvalidArgumentError, Option, type Command } from 'commander';
import { addressOf, lowestId } from '../database/connection.ts';
import type { Database } from '../database/db.ts';
import { checkCredits, listCustomersAfter, type CreditFault } from '../queries/jobs/credit-checks.ts';
import { adjustCredits, findCredits, grantCredits } from '../queries/jobs/credits.ts';
import { pools, type Credits, type Pool } from '../schemas/jobs.ts';
import { commandAction, printed, asInteger, asText, table, verb } from './command.ts';
import { forCustomer, withServices } from './database.ts';

export function define(command: Command): void {
  verb(command, 'show', "show both pools of a customer's credits", 'customer').action(commandAction(show, print));

  toMove(command, 'grant', 'grant credits to a customer', asInteger(1, maxCredits)).action(
    commandAction(move(grantCredits), print),
  );

  toMove(command, 'adjust', "correct a customer's balance, up or down", asSigned).action(
    commandAction(move(adjustCredits), print),
  );

  verb(
    command,
    'check',
    'check that balances, jobs and results of all customers match the ledger; exit 1 if not',
  ).action(async (options: { json?: boolean }) => {
    const report = printed(options, await check(), describe);
    if (report.faults.length > 0)
      throw new Error(`The credits do not match the ledger: ${counted(report.faults.length, 'fault')}`);
  });
}

/** Maximum credits in one grant or adjustment. Every JSON parser reads a number of this size exactly. */
const maxCredits = 1_000_000_000_000;

function asSigned(value: string): number {
  const [, sign, digits] = /^([+-]?)(\d+)$/.exec(value) ?? [];
  if (digits === undefined) throw new InvalidArgumentError('It must be a whole number, such as 100 or -100.');
  const amount = asInteger(1, maxCredits)(digits);
  return sign === '-' ? -amount : amount;
}

const toMove = (command: Command, name: string, about: string, asAmount: (value: string) => number): Command =>
  verb(command, name, about, 'customer')
    .addOption(new Option('--pool <pool>', 'pool of credits').choices(pools).makeOptionMandatory())
    .requiredOption('--amount <number>', 'number of credits', asAmount)
    .option('--note <text>', 'reason, shown in the ledger', asText(255));

interface Moving {
  customer: string;
  pool: Pool;
  amount: number;
  note?: string;
}

interface Moved {
  customer_id: string;
  credits: Credits;
}

const show = ({ customer }: { customer: string }): Promise<Moved> =>
  forCustomer(customer, async (sql, id) => ({ customer_id: id, credits: await findCredits(sql, id) }));

const move =
  (act: typeof grantCredits) =>
  ({ customer, pool, amount, note }: Moving): Promise<Moved> =>
    forCustomer(customer, async (sql, id) => {
      await act(sql, id, { pool, amount, note: note ?? null });
      return { customer_id: id, credits: await findCredits(sql, id) };
    });

const print = ({ credits }: Moved): string =>
  table(
    pools.map((pool) => ({ pool, ...credits[pool] })),
    { POOL: 'pool', BALANCE: 'balance', RESERVED: 'reserved' },
  );

const check = () => withServices(async ({ url, db }) => ({ database: addressOf(url), ...(await checkAll(db)) }));

const batchSize = 1_000;

async function checkAll(db: Database) {
  const report = { customers: 0, faults: [] as CreditFault[] };
  for (let after = lowestId; ;) {
    const customers = await db.search((sql) => listCustomersAfter(sql, after, batchSize));
    if (customers.length === 0) return report;
    for (const id of customers) report.faults.push(...(await db.search((sql) => checkCredits(sql, id))));
    report.customers += customers.length;
    after = customers.at(-1)!;
  }
}

const describe = ({ database: { name, host, port }, customers, faults }: Awaited<ReturnType<typeof check>>): string =>
  `Checked database ${name} on ${host}, port ${port}\n${describeFaults(customers, faults)}`;

const describeFaults = (customers: number, faults: CreditFault[]): string =>
  faults.length === 0
    ? `The credits of ${counted(customers, 'customer')} match the ledger`
    : table(faults, { CUSTOMER: 'customer_id', OF: 'of', FAULT: 'fault' });

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
