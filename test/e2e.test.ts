import createClient from 'openapi-fetch';
import { expect, test } from 'vitest';
import { hashPassword } from '../src/accounts/users.ts';
import { createUser } from '../src/queries/accounts/users.ts';
import { commandLine } from '../src/schemas/accounts.ts';
import type { paths } from './contract/client.d.ts';
import { startApp } from './setup/app.ts';
import { unique } from './setup/factories.ts';
import { startServerProcess } from './setup/server-process.ts';

test('a client generated from the contract logs in, creates an API key and works with contacts until the key is revoked', async () => {
  const app = await startApp();
  const { id: customerId } = await app.customer();
  const [email, password] = [`${unique('e2e')}@example.com`, 'correct horse battery'];
  const passwordHash = await hashPassword(password);
  await app.db.transaction((sql) =>
    createUser(sql, customerId, { email, name: 'E2E', role: 'admin', passwordHash }, commandLine),
  );
  const { url } = await startServerProcess(app.url);
  const client = createClient<paths>({ baseUrl: url });

  const login = await client.POST('/api/auth/login', { body: { email, password } });
  const session = { authorization: `Bearer ${login.data!.token}` };
  const issued = await client.POST('/api/api-key/generate', {
    headers: session,
    body: {
      name: 'e2e',
      expiration: 7,
      permissions: ['contacts:create', 'contacts:read', 'contacts:update', 'contacts:delete'],
    },
  });
  const headers = { authorization: `X-API-Key ${issued.data!.data.key}` };

  const created = await client.POST('/api/ext/contacts', {
    headers,
    body: {
      first_name: 'Grace',
      last_name: 'Hopper',
      work_email: 'grace@navy.example',
      phone_numbers: [{ country_code: '+1', number: '555 0100' }],
      company: { name: 'Navy' },
    },
  });
  const id = created.data!.data.id;
  const path = { params: { path: { id } }, headers };
  const read = await client.GET('/api/ext/contacts/{id}', path);
  expect(read.data).toMatchObject({ first_name: 'Grace', company: { company_name: 'Navy' } });

  const etag = read.response.headers.get('etag')!;
  const change = {
    params: path.params,
    headers: { ...headers, 'if-match': etag },
    body: { job_title: 'Rear Admiral' },
  };
  expect((await client.PATCH('/api/ext/contacts/{id}', change)).response.status).toBe(200);
  expect((await client.PATCH('/api/ext/contacts/{id}', change)).response.status).toBe(412);

  const found = await client.POST('/api/ext/contacts/list', {
    headers,
    body: { filters: { job_title: { contains: 'ADMIRAL' } }, order_by: { last_name: 'ASC' }, paginate: { limit: 10 } },
  });
  expect(found.data!.map((contact) => contact.id)).toEqual([id]);
  expect((await client.DELETE('/api/ext/contacts/{id}', path)).response.status).toBe(200);

  await client.PATCH('/api/api-key/revoke/{id}', { params: { path: { id: issued.data!.data.id } }, headers: session });
  const refused = await client.GET('/api/ext/contacts/{id}', path);
  expect(refused.response.status).toBe(401);
  expect(refused.error).toEqual({ statusCode: 401, message: expect.any(String) });
});
