import type { FastifyInstance } from 'fastify';
import { hashPassword } from '../../src/accounts/users.ts';
import { createUser } from '../../src/queries/accounts/users.ts';
import { commandLine, type Role } from '../../src/schemas/accounts.ts';
import { dbOf, inject, unique, type Answer } from './factories.ts';

/** A user with a known password, and a client that is logged in as this user. */
export interface TestSession {
  userId: string;
  email: string;
  password: string;
  token: string;
  call: (method: string, path: string, body?: unknown) => Promise<Answer>;
}

export const password = 'correct horse battery';

let hashed: Promise<string> | undefined;

/** Creates a user with the known password, not logged in. */
export async function makeLogin(app: FastifyInstance, customerId: string, role: Role = 'admin') {
  const email = `${unique(role)}@example.com`;
  const passwordHash = await (hashed ??= hashPassword(password));
  const given = { email, name: 'Grace Hopper', role, passwordHash };
  const user = await dbOf(app).transaction((sql) => createUser(sql, customerId, given, commandLine));
  return { userId: user.id, email, password };
}

/** Logs in and returns the response. */
export const login = (app: FastifyInstance, email: string, secret: string = password): Promise<Answer> =>
  inject(app, 'POST', '/api/auth/login', { email, password: secret });

/** Creates a user with a role and logs in. */
export async function makeSession(
  app: FastifyInstance,
  customerId: string,
  role: Role = 'admin',
): Promise<TestSession> {
  const user = await makeLogin(app, customerId, role);
  return { ...user, ...(await openSession(app, user.email)) };
}

/** Creates a further session of a user. */
export async function openSession(app: FastifyInstance, email: string): Promise<Pick<TestSession, 'token' | 'call'>> {
  const { body } = await login(app, email);
  const headers = { authorization: `Bearer ${body.token}` };
  return { token: body.token, call: (method, path, sent) => inject(app, method, path, sent, headers) };
}
