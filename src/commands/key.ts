import { InvalidArgumentError, Option, type Command } from 'commander';
import { readConfig } from '../process/config.ts';
import { conflict } from '../errors.ts';
import { findApiKey, issueKey, listApiKeys, revokeKey, type Issued } from '../queries/accounts/api-keys.ts';
import { findFirstAdmin } from '../queries/accounts/users.ts';
import { capPeriods, durations, maxCap, noCaps, commandLine } from '../schemas/accounts.ts';
import type { ApiKey, Duration, SpendCap, SpendCaps } from '../schemas/accounts.ts';
import { isUsual, scopes, type Scope } from '../schemas/scopes.ts';
import { pools, type Pool } from '../schemas/jobs.ts';
import { commandAction, asInteger, asKeyName, asSome, table, verb } from './command.ts';
import { forCustomer, forOwner } from './database.ts';

export function define(command: Command): void {
  verb(
    command,
    'create',
    "create an API key in the name of the customer's first admin; only this command shows its value",
    'customer',
  )
    .requiredOption('--name <name>', 'purpose of the key, 1 to 120 characters', asKeyName)
    .addOption(
      new Option('--expiration <days>', 'days until the key expires').choices(durations.map(String)).default('90'),
    )
    .option(
      '--permissions <scopes>',
      'scopes, separated by commas (default: all but those for managing)',
      asSome('scope', scopes),
    )
    .option(
      '--cap <pool=amount/time>',
      'most credits that jobs of the key may cost, such as verification=500/day (also /month, /total); can be repeated',
      addCap,
    )
    .action(commandAction(create, describe));

  verb(command, 'list', "list a customer's API keys, newest first, without their values", 'customer').action(
    commandAction(list, print),
  );

  verb(command, 'revoke', 'revoke an API key permanently, with immediate effect', 'key').action(
    commandAction(revoke, print),
  );
}

function addCap(value: string, caps: SpendCaps = noCaps): SpendCaps {
  const [, pool = '', amount = '', per = ''] = /^(\w+)=(\d+)\/(\w+)$/.exec(value) ?? [];
  if (!pools.includes(pool as Pool) || !capPeriods.includes(per as SpendCap['per']))
    throw new InvalidArgumentError(
      `It must be a pool (${pools.join(' or ')}), an amount and a time (${capPeriods.join(', ')}), such as verification=500/day.`,
    );
  return { ...caps, [pool]: { amount: asInteger(0, maxCap)(amount), per } };
}

interface Creation {
  customer: string;
  name: string;
  expiration: string;
  permissions?: Scope[];
  cap?: SpendCaps;
}

const create = ({ customer, name, expiration, permissions, cap }: Creation): Promise<Issued> =>
  forCustomer(customer, async (sql, id) => {
    const admin = await findFirstAdmin(sql, id);
    if (!admin) throw conflict('The customer has no active admin: create one with `user create --role admin`');
    const limits = { ...(permissions && { permissions }), ...(cap && { spend_caps: cap }) };
    const given = { name, expiration: Number(expiration) as Duration, ...limits };
    return issueKey(sql, { customerId: id, userId: admin.id }, given, readConfig().KEY_PREFIX, commandLine);
  });

const describe = ({ id, key, expires_at }: Issued): string =>
  [key, '', `This value is shown only once. The key's id is ${id}; it expires ${expires_at}.`].join('\n');

const list = ({ customer }: { customer: string }): Promise<ApiKey[]> => forCustomer(customer, listApiKeys);

const revoke = (options: { key: string }): Promise<ApiKey> =>
  forOwner('api_keys', options.key, async (sql, customerId) => {
    await revokeKey(sql, customerId, options.key, commandLine);
    return (await findApiKey(sql, customerId, options.key))!;
  });

const print = (keys: ApiKey | ApiKey[]): string =>
  table(keys, {
    ID: 'id',
    START: 'start',
    NAME: 'name',
    STATUS: 'status',
    EXPIRES: 'expires_at',
    SPENT: (key) => pools.map((pool) => spentIn(key, pool)).join(', '),
    'LAST USED': 'last_used_at',
    PERMISSIONS: (key) => (isUsual(key.permissions) ? 'all scopes' : key.permissions.join(',')),
  });

function spentIn({ spent, spend_caps: caps }: ApiKey, pool: Pool): string {
  const cap = caps[pool];
  return `${pool} ${spent[pool]}${cap === null ? '' : ` of ${cap.amount}/${cap.per}`}`;
}
