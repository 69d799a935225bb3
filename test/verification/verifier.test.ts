import type { Socket } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { openVerifier, type Verifier } from '../../src/verification/verifier.ts';
import { gather, scripted, startMailServer, startRudeServer, type Crowd } from '../setup/mail-server.ts';
import { randomDomain, startNameServer } from '../setup/name-server.ts';

const names = await startNameServer();
const loopback = { a: ['127.0.0.1'] };

const opened: Verifier[] = [];
afterAll(() => Promise.all(opened.map((verifier) => verifier.close())));

/** Opens a verifier that uses the name server of this file. */
function open(environment: Record<string, string> = {}): Verifier {
  const defaults = { VERIFY_DNS_SERVERS: names.address, VERIFY_DOMAIN_INTERVAL_MS: '0' };
  const verifier = openVerifier(parseConfig({ ...defaults, ...environment }));
  opened.push(verifier);
  return verifier;
}

/** Opens a verifier with SMTP checks, which calls mail servers at a port on loopback. */
const asking = (port: number, environment: Record<string, string> = {}) =>
  open({
    VERIFY_SMTP: 'on',
    VERIFY_SMTP_PORT: `${port}`,
    VERIFY_PRIVATE_ADDRESSES: 'on',
    VERIFY_SMTP_TIMEOUT_MS: '1000',
    ...environment,
  });

/** Registers a new domain whose mail host is on loopback. */
const mailDomain = () => {
  const host = names.name(loopback);
  return { host, domain: names.name({ mx: [[10, host]] }) };
};

/** The reply of a mail server whose only mailbox is `ada`: undefined means accepted. */
const takeAda = (recipient: string) =>
  recipient.startsWith('ada@') ? undefined : { code: 550, text: '5.1.1 No such user here' };

describe('without SMTP checks', () => {
  const verifier = open();
  const impatient = open({ VERIFY_DNS_TIMEOUT_MS: '200' });
  const status = async (address: string) => (await verifier.verify(address)).status;

  test('an address is verified if its domain has a mail host; case and surrounding white space are ignored', async () => {
    const { domain, host } = mailDomain();
    expect(await verifier.verify(` Ada@${domain.toUpperCase()} `)).toEqual({
      status: 'verified',
      checks: {
        syntax: { status: 'passed' },
        disposable: { status: 'passed' },
        role: { status: 'passed' },
        mx: { status: 'passed', host },
        smtp: { status: 'not_checked' },
      },
    });
  });

  test.each<[string, Parameters<typeof names.name>[0], status: string, reason: RegExp]>([
    ['has an IP address and no MX', loopback, 'verified', /undefined/],
    ['has an IPv6 address and no MX', { aaaa: ['::1'] }, 'verified', /undefined/],
    ['has an empty MX (RFC 7505), even if it has an IP address', { mx: [[0, '']], ...loopback }, 'invalid', /null_mx/],
    ['has neither MX nor IP address', {}, 'invalid', /no_records/],
    ['does not exist', 'nxdomain', 'invalid', /no_domain/],
    ['has a silent name server', 'silent', 'unknown', /dns_/],
    ['has a name server that fails', 'servfail', 'unknown', /dns_/],
    ['has a name server that refuses', 'refused', 'unknown', /dns_/],
    ['has a name server that sends garbage', 'garbage', 'unknown', /dns_/],
  ])('the address at a domain that %s gets its status from the DNS alone', async (_what, answer, expected, reason) => {
    const domain = names.name(answer);
    const { status, checks } = await (answer === 'silent' ? impatient : verifier).verify(`a@${domain}`);
    expect([status, `${checks.mx.reason}`]).toEqual([expected, expect.stringMatching(reason)]);
    expect(checks.mx.host).toBe(expected === 'verified' ? domain : undefined);
  });

  test('a disposable domain and its subdomains are recognised, whatever the DNS says', async () => {
    expect(await verifier.verify('info@mailinator.com')).toMatchObject({
      status: 'disposable',
      checks: { disposable: { status: 'failed', domain: 'mailinator.com' }, mx: { status: 'failed' } },
    });
    expect(await status('ada@a.b.Mailinator.com')).toBe('disposable');
    expect(await status(`ada@${randomDomain().replace('.test', '')}mailinator.com`)).toBe('invalid');
  });

  test('a role account is do_not_mail, whatever its case and tag, and whether or not its domain accepts mail', async () => {
    const { domain } = mailDomain();
    for (const local of ['info', 'INFO', 'sales+spring', 'postmaster', 'abuse', 'no-reply', '"admin"'])
      expect(await status(`${local}@${domain}`), local).toBe('do_not_mail');
    expect(await verifier.verify(`info@${randomDomain()}`)).toMatchObject({
      status: 'do_not_mail',
      checks: { role: { status: 'failed', account: 'info' }, mx: { status: 'failed' } },
    });
    expect(await status(`informant@${domain}`)).toBe('verified');
  });
});

describe('with a mail server that follows the protocol', () => {
  test('an existing mailbox is verified, another one is invalid, and no mail is sent', async () => {
    const server = await startMailServer(takeAda);
    const verifier = asking(server.port, {
      VERIFY_SMTP_SENDER: 'probe@example.org',
      VERIFY_SMTP_NAME: 'verifier.example.org',
    });
    const { domain, host } = mailDomain();
    expect(await verifier.verify(`ada@${domain}`)).toMatchObject({
      status: 'verified',
      checks: { smtp: { status: 'passed', host, code: 250 } },
    });
    expect(await verifier.verify(`bob@${domain}`)).toMatchObject({
      status: 'invalid',
      checks: { smtp: { status: 'failed', host, code: 550, enhanced_code: '5.1.1' } },
    });
    expect(server.recipients).toEqual([`ada@${domain}`, expect.stringMatching(/^[0-9a-f]{24}@/), `bob@${domain}`]);
    expect([new Set(server.senders), new Set(server.names)]).toEqual([
      new Set(['probe@example.org']),
      new Set(['verifier.example.org']),
    ]);
    expect(server.gotMail).toBe(false);
  });

  test('a domain that accepts any mailbox is accept_all, and the server is called only once', async () => {
    const server = await startMailServer(() => undefined);
    const verifier = asking(server.port);
    const { domain } = mailDomain();
    for (const local of ['ada', 'bob', 'eve'])
      expect(await verifier.verify(`${local}@${domain}`)).toMatchObject({
        status: 'accept_all',
        checks: { smtp: { status: 'accept_all' } },
      });
    expect(server.calls).toHaveLength(1);
  });

  test('the mail server is not called for role accounts and for domains that accept no mail', async () => {
    const server = await startMailServer(() => undefined);
    const verifier = asking(server.port);
    const { domain } = mailDomain();
    expect((await verifier.verify(`info@${domain}`)).checks.smtp).toEqual({ status: 'not_checked' });
    await verifier.verify(`ada@${names.name({ mx: [[0, '']] })}`);
    expect(server.calls).toHaveLength(0);
  });

  test.each([
    [452, '4.2.2 Mailbox full'],
    [550, '5.7.1 Blocked by policy'],
    [550, 'Your host is listed at dnsbl.example'],
    [554, 'No thanks'],
  ])('the reply %i %s does not tell whether the mailbox exists: unknown', async (code, text) => {
    const server = await startMailServer(() => ({ code, text }));
    const { status, checks } = await asking(server.port).verify(`ada@${mailDomain().domain}`);
    expect(status).toBe('unknown');
    expect(checks.smtp).toMatchObject({ status: 'unknown', code });
  });

  test.each([
    [550, 'No such user'],
    [550, '<ada@blocklist.example> user unknown'],
    [550, '5.4.1 Recipient address rejected: Access denied'],
    [554, '5.1.1 Unknown'],
    [550, '5.2.1 Disabled'],
  ])('the reply %i %s means that the mailbox does not exist: invalid', async (code, text) => {
    const server = await startMailServer(() => ({ code, text }));
    expect((await asking(server.port).verify(`ada@${mailDomain().domain}`)).status).toBe('invalid');
  });

  test('an accepted mailbox is unknown if the reply for a random mailbox is undecided', async () => {
    const server = await startMailServer((one) => (one.startsWith('ada@') ? undefined : { code: 451, text: 'Later' }));
    const { status, checks } = await asking(server.port).verify(`ada@${mailDomain().domain}`);
    expect([status, checks.smtp.reason]).toEqual(['unknown', 'catch_all_undecided']);
  });

  test('a local part with non-ASCII characters is checked if the server supports SMTPUTF8, otherwise it is unknown', async () => {
    const { domain } = mailDomain();
    const deaf = await startMailServer(() => undefined, { hideSMTPUTF8: true });
    expect(await asking(deaf.port).verify(`δοκιμή@${domain}`)).toMatchObject({
      status: 'unknown',
      checks: { smtp: { reason: 'no_smtputf8' } },
    });
    const server = await startMailServer((one) =>
      one.startsWith('δοκιμή@') ? undefined : { code: 550, text: 'Unknown' },
    );
    expect((await asking(server.port).verify(`δοκιμή@${domain}`)).status).toBe('verified');
  });

  test('if a server does not respond, the next one is asked', async () => {
    const server = await startMailServer(takeAda);
    const [first, second, third] = [names.name('servfail'), names.name({ a: ['127.0.0.2'] }), names.name(loopback)];
    const domain = names.name({
      mx: [
        [1, first],
        [2, second],
        [3, third],
      ],
    });
    expect(await asking(server.port).verify(`bob@${domain}`)).toMatchObject({
      status: 'invalid',
      checks: { mx: { host: first }, smtp: { status: 'failed', host: third } },
    });
  });

  test('a server that does not know EHLO is greeted with HELO', async () => {
    const server = await startRudeServer(
      scripted('220-well\r\n220 met\r\n', {
        EHLO: '502 what?\r\n',
        HELO: '250 hi\r\n',
        MAIL: '250 ok\r\n',
        RCPT: '550 no\r\n',
      }),
    );
    expect((await asking(server.port).verify(`ada@${mailDomain().domain}`)).status).toBe('invalid');
    await expect.poll(() => server.heard.at(-1)).toBe('QUIT\r\n');
  });
});

describe('IP addresses that are not public', () => {
  test.each([{ a: ['127.0.0.1'] }, { a: ['169.254.169.254'] }, { aaaa: ['::1', '::ffff:127.0.0.1'] }])(
    'are never connected to: %j',
    async (answer) => {
      const server = await startMailServer(() => undefined);
      const verifier = asking(server.port, { VERIFY_PRIVATE_ADDRESSES: 'off' });
      const host = names.name(answer);
      for (const domain of [names.name({ mx: [[1, host]] }), host])
        expect(await verifier.verify(`ada@${domain}`)).toMatchObject({
          status: 'unknown',
          checks: { smtp: { status: 'unknown', reason: 'not_public' } },
        });
      expect(server.calls).toHaveLength(0);
    },
  );
});

describe('a mail server', () => {
  const good = { EHLO: '250 hi\r\n', MAIL: '250 ok\r\n', RCPT: '250 ok\r\n' };
  const endless = (piece: string) => (socket: Socket) => {
    const much = piece.repeat(4_000);
    const more = () => {
      while (!socket.destroyed && socket.write(much));
    };
    socket.on('drain', more);
    more();
  };
  const cases: Record<string, [reason: string, behave: Parameters<typeof startRudeServer>[0]]> = {
    'that sends nothing': ['timeout', () => undefined],
    'that sends a byte at a time': [
      'timeout',
      (socket) => {
        const timer = setInterval(() => socket.write('2'), 20);
        socket.on('close', () => clearInterval(timer));
      },
    ],
    'that closes the connection within a reply': [
      'closed',
      scripted('220 hi\r\n', { ...good, RCPT: (socket) => socket.end('550-5.1.1 no') }),
    ],
    'that greets with 554': ['not_served', scripted('554 go away\r\n', good)],
    'that speaks another protocol': ['garbage', scripted('SSH-2.0-OpenSSH_9.9\r\n', good)],
    'with an endless reply': ['garbage', scripted('220 hi\r\n', { ...good, RCPT: endless('250-yes\r\n') })],
    'that sends all replies before the commands': ['garbage', scripted(`220 hi\r\n${'250 ok\r\n'.repeat(4)}`, {})],
    'that asks for data': ['temporary', scripted('220 hi\r\n', { ...good, RCPT: '354 go on\r\n' })],
    'that rejects the sender': [
      'sender_refused',
      scripted('220 hi\r\n', { ...good, MAIL: '550 5.1.1 no such sender\r\n' }),
    ],
  };

  test.each(Object.entries(cases))(
    '%s makes the result unknown within the timeout',
    async (_name, [reason, behave]) => {
      const server = await startRudeServer(behave);
      const verifier = asking(server.port, { VERIFY_SMTP_TIMEOUT_MS: '300' });
      const { status, checks } = await verifier.verify(`ada@${mailDomain().domain}`);
      expect([status, checks.smtp.status, checks.smtp.reason]).toEqual(['unknown', 'unknown', reason]);
      expect(server.heard.join('')).not.toContain('DATA');
      await expect.poll(() => server.callers.size).toBe(0);
    },
  );

  test('that refuses connections makes the result unknown', async () => {
    expect(await asking(1).verify(`ada@${mailDomain().domain}`)).toMatchObject({
      status: 'unknown',
      checks: { smtp: { reason: 'refused' } },
    });
  });

  test('without an IP address, or whose look-up fails, makes the result unknown', async () => {
    const verifier = asking(1);
    for (const [answer, reason] of [
      ['nxdomain', 'no_address'],
      ['servfail', 'dns_servfail'],
    ] as const)
      expect(await verifier.verify(`ada@${names.name({ mx: [[1, names.name(answer)]] })}`)).toMatchObject({
        status: 'unknown',
        checks: { smtp: { reason } },
      });
  });

  test('that does not reply costs no more time than the deadline', async () => {
    const server = await startRudeServer(
      scripted('220 hi\r\n', { EHLO: '250 hi\r\n', MAIL: '250 ok\r\n', RCPT: () => undefined }),
    );
    const verifier = asking(server.port, { VERIFY_SMTP_TIMEOUT_MS: '60000', VERIFY_DEADLINE_MS: '300' });
    expect(await verifier.verify(`ada@${mailDomain().domain}`)).toMatchObject({
      status: 'unknown',
      checks: { smtp: { reason: 'deadline' } },
    });
    await expect.poll(() => server.callers.size).toBe(0);
  });
});

describe('the limits of a domain', () => {
  const takeAdaWith = (crowd: Crowd) => async (recipient: string) => {
    await crowd.pass();
    return takeAda(recipient);
  };

  test('apply to all concurrent verifications', async () => {
    const crowd = gather(3);
    const server = await startMailServer(takeAdaWith(crowd));
    const verifier = asking(server.port, { VERIFY_DOMAIN_CONNECTIONS: '3', VERIFY_SMTP_TIMEOUT_MS: '20000' });
    const { domain } = mailDomain();
    await Promise.all(Array.from({ length: 40 }, (_, i) => verifier.verify(`a${i}@${domain}`)));
    expect(server.calls).toHaveLength(40);
    expect(crowd.maxAtOnce).toBe(3);
  });

  test('are shared fairly: owners who wait for the same domain take turns', async () => {
    const { promise: asked, resolve: answer } = Promise.withResolvers<void>();
    const server = await startMailServer(async () => {
      await asked;
      return { code: 550, text: '5.1.1 No such user' };
    });
    const verifier = asking(server.port, { VERIFY_DOMAIN_CONNECTIONS: '1', VERIFY_SMTP_TIMEOUT_MS: '20000' });
    const { domain } = mailDomain();
    const ask = (name: string, owner: string) => verifier.verify(`${name}@${domain}`, undefined, owner);
    const busy = ['a1', 'a2', 'a3', 'a4', 'a5'].map((name) => ask(name, 'busy'));
    await expect.poll(() => server.recipients, { timeout: 20_000 }).toHaveLength(1);
    const modest = [ask('b1', 'modest'), ask('c1', 'another')];
    answer();
    await Promise.all([...busy, ...modest]);
    expect(server.recipients.map((recipient) => recipient.split('@')[0])).toEqual([
      'a1',
      'a2',
      'b1',
      'c1',
      'a3',
      'a4',
      'a5',
    ]);
  });

  test('keep an interval between calls, also after a pause', async () => {
    const server = await startMailServer(takeAda);
    const verifier = asking(server.port, { VERIFY_DOMAIN_INTERVAL_MS: '300' });
    const { domain } = mailDomain();
    for (let i = 0; i < 3; i += 1) await verifier.verify(`a${i}@${domain}`);
    await Promise.all([3, 4, 5].map((i) => verifier.verify(`a${i}@${domain}`)));
    const distances = server.calls.slice(1).map((time, i) => time - server.calls[i]!);
    // The server sees a call a little after it began, so the sum of the intervals may be slightly too short.
    expect(distances.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(5 * 300 - 100);
  });

  test('do not delay close: it ends running checks as unknown', async () => {
    const server = await startRudeServer(() => undefined);
    const verifier = asking(server.port, { VERIFY_SMTP_TIMEOUT_MS: '60000' });
    const under = verifier.verify(`ada@${mailDomain().domain}`);
    await expect.poll(() => server.callers.size).toBe(1);
    await verifier.close();
    expect((await under).status).toBe('unknown');
    await expect.poll(() => server.callers.size).toBe(0);
  });
});
