import { Type } from '@sinclair/typebox';
import type { FastifyReply } from 'fastify';
import { expect, test } from 'vitest';
import { ShortageBody } from '../../../src/schemas/wire.ts';
import { appWithoutDatabase } from '../../contract/declared.ts';
import { inject } from '../../setup/factories.ts';

const access = { public: true } as const;
const spending = { scope: 'verify_email:create' } as const;

const app = appWithoutDatabase();
let send: (reply: FastifyReply) => unknown;
void app.register(async (scope) => {
  const schema = { response: { 200: Type.Object({ name: Type.String() }), 204: Type.Null() } };
  scope.get('/own', { config: { access }, schema }, async (_request, reply) => send(reply));
});

/** Calls a route that declares only `200: {name}` and 204. */
async function answerOf(sending: typeof send) {
  send = sending;
  return inject(app, 'GET', '/own');
}

test('a field that the schema does not declare is not sent', async () => {
  const answer = await answerOf((reply) => reply.send({ name: 'a', password: 'secret' }));
  expect(answer).toMatchObject({ status: 200, body: { name: 'a' } });
  expect(JSON.stringify(answer.body)).not.toContain('secret');
});

test('an undeclared success status becomes 500, whatever the body', async () => {
  const secrets = [{ name: 'secret' }, 'secret', Buffer.from('secret'), null];
  for (const payload of secrets) {
    const answer = await answerOf((reply) => reply.code(202).send(payload));
    expect(answer).toMatchObject({ status: 500, body: { statusCode: 500, code: 'internal_error' } });
    expect(JSON.stringify(answer)).not.toContain('secret');
  }
});

const response = { 200: Type.Null() };

test.each([
  ['access', {}, { response }, 'does not declare config.access'],
  ['responses', { access }, {}, 'does not declare its responses'],
  ['a limit', { access: spending }, { response: { ...response, 402: ShortageBody } }, "declare config.limit: 'jobs'"],
])('a route without %s, though it needs it, stops the start with its name', async (_, config, schema, fault) => {
  const app = appWithoutDatabase();
  void app.register(async (scope) => void scope.post('/own', { config, schema }, async () => null));
  await expect(app.ready()).rejects.toThrow(new RegExp(`POST /own .*${fault}`));
});
