import { Type } from '@sinclair/typebox';
import type { FastifyReply } from 'fastify';
import { expect, test } from 'vitest';
import { appWithoutDatabase } from '../../contract/declared.ts';
import { inject } from '../../setup/factories.ts';

const access = { public: true } as const;

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

test('a declared status without a body is sent', async () => {
  expect(await answerOf((reply) => reply.code(204).send(null))).toMatchObject({ status: 204, body: '' });
});

test('a response without a required field becomes 500', async () => {
  expect(await answerOf((reply) => reply.send({}))).toMatchObject({ status: 500, body: { code: 'internal_error' } });
});

test('a route that declares no responses stops the start', async () => {
  const app = appWithoutDatabase();
  void app.register(async (scope) => {
    scope.get('/own', { config: { access } }, async () => ({ password: 'secret' }));
  });
  await expect(app.ready()).rejects.toThrow('GET /own does not declare its responses');
});
