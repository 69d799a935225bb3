import { describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { operatorWith, runCommand, unknownId, words } from '../setup/cli.ts';
import { unique } from '../setup/factories.ts';
import { login, makeSession } from '../setup/sessions.ts';

const { fastify: app, url, owner, customer } = await startApp();

const { run, json } = operatorWith({ DATABASE_URL: url });

const userLine = (customerId: string, email: string): string[] =>
  words`user create --customer ${customerId} --email ${email} --name ${'Grace Hopper'} --role admin --password-stdin`;

const eventsOf = async (customerId: string): Promise<string[]> => {
  const events = await json(words`audit list --customer ${customerId} --limit 100`);
  return events.map(({ event, actor }: Record<string, string>) => `${event} by ${actor}`).toReversed();
};

const stagesOf = (pipeline: {
  stages: { name: string; order: number; probability_percentage: number; status: string }[];
}) => pipeline.stages.map((stage) => [stage.order, stage.name, stage.probability_percentage, stage.status]);

const salesStages = [
  [1, 'Lead', 10, 'OPEN'],
  [2, 'Qualified', 25, 'OPEN'],
  [3, 'Proposal', 50, 'OPEN'],
  [4, 'Negotiation', 75, 'OPEN'],
  [5, 'Won', 100, 'WON'],
  [6, 'Lost', 0, 'LOST'],
];

test('customer create adds a customer with the Sales pipeline', async () => {
  const made = await json(words`customer create --name ${' Harbour & Pine '} --country gb --city Bristol`);
  expect(made).toMatchObject({ business_name: 'Harbour & Pine', status: 'OK', country: 'GB', city: 'Bristol' });
  const pipelines = await json(words`pipeline list --customer ${made.id}`);
  expect(pipelines).toMatchObject([{ name: 'Sales', active: true, visibility: 'PUBLIC', currency: 'USD' }]);
  expect(stagesOf(pipelines[0])).toEqual(salesStages);
  expect(await eventsOf(made.id)).toEqual(['customer.created by command line']);
  expect((await json(words`customer list`))[0]).toMatchObject({ id: made.id });
});

test('customer suspend and resume have an immediate effect on the running service, and no effect the second time', async () => {
  const { id, get } = await customer();
  const statuses: number[] = [];
  for (const verb of ['suspend', 'suspend', 'resume']) {
    const { status } = await json(words`customer ${verb} --customer ${id}`);
    expect(status).toBe(verb === 'suspend' ? 'SUSPENDED' : 'OK');
    statuses.push((await get('/customer/summary')).status);
  }
  expect(statuses).toEqual([401, 401, 200]);
  expect((await eventsOf(id)).filter((event) => event.startsWith('customer.'))).toEqual([
    'customer.created by command line',
    'customer.suspended by command line',
    'customer.resumed by command line',
  ]);
});

test('user create adds a user who can log in with the password from standard input', async () => {
  const { id, adminId } = await customer();
  const email = `${unique('Admin')}@Example.com`;
  const user = await json(userLine(id, email), 'pass wörd of mine\n');
  expect(user).toEqual({ id: user.id, name: 'Grace Hopper', email, role: 'admin', active: true });
  const answer = await login(app, email.toLowerCase(), 'pass wörd of mine');
  expect(answer.body.user).toMatchObject({ id: user.id, customer_id: id });
  const listed = await json(words`user list --customer ${id}`);
  expect(listed).toMatchObject([user, { id: adminId }]);
});

test('user deactivate ends the sessions of a user, and has no effect the second time', async () => {
  const { id } = await customer();
  const { userId, email, call } = await makeSession(app, id);
  expect(await json(words`user deactivate --user ${userId}`)).toMatchObject({ id: userId, email, active: false });
  await json(words`user deactivate --user ${userId}`);
  expect([(await call('GET', '/api/api-key')).status, (await login(app, email)).status]).toEqual([401, 401]);
  expect(await owner`select from sessions where user_id = ${userId}`).toHaveLength(0);
  expect((await eventsOf(id)).filter((event) => event === 'user.deactivated by command line')).toHaveLength(1);
});

test('user reset-password ends the sessions and sets the password', async () => {
  const { id } = await customer();
  const { userId, email, call } = await makeSession(app, id);
  await json(words`user reset-password --user ${userId} --password-stdin`, 'quite another password');
  expect((await call('GET', '/api/api-key')).status).toBe(401);
  expect((await login(app, email)).status).toBe(401);
  expect((await login(app, email, 'quite another password')).status).toBe(200);
  expect(await eventsOf(id)).toContain('user.password_reset by command line');
});

test('pipeline create adds a pipeline with the given stages in their order', async () => {
  const { id } = await customer();
  const line = words`pipeline create --customer ${id} --name Renewals --currency eur --visibility PRIVATE`;
  const made = await json(words`${line} --stage ${'Due: soon:40'} --stage Done:100:WON`);
  expect(made).toMatchObject({
    name: 'Renewals',
    description: '',
    currency: 'EUR',
    visibility: 'PRIVATE',
    active: true,
  });
  expect(stagesOf(made)).toEqual([
    [1, 'Due: soon', 40, 'OPEN'],
    [2, 'Done', 100, 'WON'],
  ]);
  expect((await json(words`pipeline list --customer ${id}`))[0]).toEqual(made);
});

test('a verb prints an aligned table without control characters', async () => {
  const name = `${unique('Bell')}\u001B[2J\u202E\u2066\u200F`;
  const { stdout, code } = await run(words`customer create --name ${name}`);
  expect(code).toBe(0);
  const [heading, row] = stdout.trimEnd().split('\n');
  expect(heading).toMatch(/^ID {36}NAME +STATUS {2}CREATED$/);
  expect(row!.indexOf('OK')).toBe(heading!.indexOf('STATUS'));
  expect(stdout).not.toMatch(/[^\P{Cc}\n]|\p{Bidi_Control}/u);
});

describe('a failing command exits 1 with the reason on stderr and nothing on stdout:', () => {
  const nowhere = 'postgres://owner@127.0.0.1:1/none';
  const cases: [string, string[], Record<string, string>, RegExp][] = [
    ['an unknown customer', ['user', 'list', '--customer', unknownId], {}, /^error: No such customer\n$/],
    ['an unknown user', ['user', 'deactivate', '--user', unknownId], {}, /^error: No such user\n$/],
    ['an invalid configuration', ['customer', 'list'], { PORT: 'x', LOG_LEVEL: 'loud' }, /PORT: .*\n.*LOG_LEVEL: /],
    [
      'an unreachable database',
      ['customer', 'list'],
      { DATABASE_URL: nowhere },
      /cannot be reached: no server listens/,
    ],
  ];

  test.each(cases)('%s', async (_, line, environment, reason) => {
    const { code, stdout, stderr } = await runCommand(words`${line} --json`, { DATABASE_URL: url, ...environment });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(reason);
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe('key', () => {
  const makeAdmin = async () => {
    const made = await json(words`customer create --name ${unique('Keys')}`);
    await json(userLine(made.id, `${unique('first')}@example.com`), 'a long enough password');
    await json(userLine(made.id, `${unique('second')}@example.com`), 'a long enough password');
    const users = await json(words`user list --customer ${made.id}`);
    return { customerId: made.id as string, first: users.at(-1).id as string };
  };
  const ping = (key: string) =>
    app.inject({ url: '/api/ext/customer/summary', headers: { authorization: `X-API-Key ${key}` } });

  test('create adds a working key of the first admin and shows its value; revoke ends it', async () => {
    const { customerId, first } = await makeAdmin();
    const line = words`key create --customer ${customerId} --name ${' Nightly '} --expiration 7`;
    const { id, key, ...made } = await json(line);
    expect(made).toMatchObject({
      name: 'Nightly',
      status: 'active',
      permissions: expect.arrayContaining(['prospect:read']),
    });
    expect((await ping(key)).statusCode).toBe(200);
    const listed = await json(words`key list --customer ${customerId}`);
    expect(listed).toMatchObject([{ id, created_by: first, start: made.start, status: 'active' }]);
    expect(JSON.stringify(listed)).not.toContain(key);
    expect(await json(words`key revoke --key ${id}`)).toMatchObject({ id, status: 'revoked' });
    expect((await ping(key)).statusCode).toBe(401);
    expect(await eventsOf(customerId)).toEqual(
      expect.arrayContaining(['api_key.generated by command line', 'api_key.revoked by command line']),
    );
  });

  test('create gives a key only the given permissions and spend caps, and list shows what it has spent', async () => {
    const { customerId } = await makeAdmin();
    const line = words`key create --customer ${customerId} --name n --permissions ${'contacts:read, contacts:read'}`;
    const caps = { subscription: { amount: 0, per: 'total' }, verification: { amount: 500, per: 'day' } };
    const made = await json(words`${line} --cap verification=500/day --cap subscription=0/total`);
    expect(made).toMatchObject({ spend_caps: caps, permissions: ['contacts:read'] });
    const listed = await json(words`key list --customer ${customerId}`);
    expect(listed).toMatchObject([{ spend_caps: caps, spent: { subscription: 0, verification: 0 } }]);
    const { stdout } = await run(words`key list --customer ${customerId}`);
    expect(stdout).toContain('subscription 0 of 0/total, verification 0 of 500/day');
    for (const cap of ['verification=500', 'verification=-1/day', 'prospects=5/day'])
      expect(await run(words`${line} --cap ${cap}`), cap).toMatchObject({ code: 2, stdout: '' });
  });

  test('create rejects an unknown scope or duration with exit 2, and a customer without an admin with exit 1', async () => {
    const made = await json(words`customer create --name ${unique('Nobody')}`);
    const line = words`key create --customer ${made.id} --name n`;
    expect(await run(words`${line} --permissions contacts:fly`)).toMatchObject({ code: 2, stdout: '' });
    expect(await run(words`${line} --expiration 8`)).toMatchObject({ code: 2, stdout: '' });
    const failed = await run(line);
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('user create') });
    expect(await run(words`key revoke --key ${unknownId}`)).toMatchObject({ code: 1, stdout: '' });
  });
});
