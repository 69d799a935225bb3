import { isUtf8 } from 'node:buffer';
import { buffer } from 'node:stream/consumers';
import { Option, type Command } from 'commander';
import { lengthOf } from '../text/fold.ts';
import { UsageError, commandAction, asEmail, asName, table, verb } from './command.ts';
import type { Transaction } from '../database/db.ts';
import { hashPassword } from '../accounts/users.ts';
import { deactivateUser, createUser, listUsers, setPassword } from '../queries/accounts/users.ts';
import { commandLine, roles, type Role, type User } from '../schemas/accounts.ts';
import { forCustomer, forOwner } from './database.ts';

/**
 * Reads a password from standard input, without the line break at the end.
 * @throws UsageError if the input is a terminal, or not a single line of 12–128 characters
 */
export async function readPassword(input: NodeJS.ReadStream = process.stdin): Promise<string> {
  // A password is not a command line argument, because other users of the machine can read the arguments.
  if (input.isTTY)
    throw new UsageError("send the password through a pipe: printf %s 'the password' | … --password-stdin");
  const bytes = await buffer(input);
  if (!isUtf8(bytes)) throw new UsageError('the password must be UTF-8 text');
  const password = new TextDecoder().decode(bytes).replace(/\r?\n$/, '');
  const length = lengthOf(password);
  if (length < 12 || length > 128) throw new UsageError('the password must have 12 to 128 characters');
  if (/[\r\n\0]/.test(password)) throw new UsageError('the password must be a single line');
  return password;
}

export function define(command: Command): void {
  verb(command, 'create', 'create a user who can log in', 'customer')
    .requiredOption('--email <address>', 'e-mail address for the login; unique among all users', asEmail)
    .requiredOption('--name <name>', 'full name', asName)
    .addOption(
      new Option('--role <role>', 'role of the user; an admin can manage API keys')
        .choices(roles)
        .makeOptionMandatory(),
    )
    .requiredOption('--password-stdin', 'read the password (12 to 128 characters) from standard input')
    .action(commandAction(create, print));

  verb(command, 'list', "list a customer's users, newest first", 'customer').action(commandAction(list, print));

  verb(
    command,
    'deactivate',
    'deactivate a user and end their sessions; API keys that they created stay valid',
    'user',
  ).action(commandAction(deactivate, print));

  verb(command, 'reset-password', 'set a new password and end all sessions of the user', 'user')
    .requiredOption('--password-stdin', 'read the password (12 to 128 characters) from standard input')
    .action(commandAction(reset, print));
}

async function create(options: { customer: string; email: string; name: string; role: Role }): Promise<User> {
  const { customer, email, name, role } = options;
  const passwordHash = await hashPassword(await readPassword());
  return forCustomer(customer, (sql, id) => createUser(sql, id, { email, name, role, passwordHash }, commandLine));
}

const list = ({ customer }: { customer: string }): Promise<User[]> => forCustomer(customer, listUsers);

const deactivate = (options: { user: string }): Promise<User> => changeUser(options.user, deactivateUser);

async function reset(options: { user: string }): Promise<User> {
  const passwordHash = await hashPassword(await readPassword());
  const reset = { passwordHash, event: 'user.password_reset', by: commandLine } as const;
  return changeUser(options.user, (sql, customerId, userId) => setPassword(sql, { customerId, userId, ...reset }));
}

const changeUser = (
  userId: string,
  change: (sql: Transaction, customerId: string, userId: string) => Promise<unknown>,
) =>
  forOwner('users', userId, async (sql, customerId) => {
    await change(sql, customerId, userId);
    const users = await listUsers(sql, customerId);
    return users.find(({ id }) => id === userId)!;
  });

const print = (users: User | User[]): string =>
  table(users, { ID: 'id', EMAIL: 'email', NAME: 'name', ROLE: 'role', ACTIVE: 'active' });
