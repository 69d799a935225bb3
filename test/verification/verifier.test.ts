import type { Socket } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import { parseConfig } from '../../src/config.ts';
import { openVerifier, type Verifier } from '../../src/verification/verifier.ts';
import { randomDomain, startNameServer } from '../setup/name-server.ts';
import { gather, scripted, startMailServer, startRudeServer, type Crowd } from '../setup/mail-server.ts';

const names = await startNameServer();
const loopback = { a: ['127.0.0.1'] };

const opened: Verifier[] = [];
afterAll(() => Promise.all(opened.map((verifier) => verifier.close())));

/** A verifier that asks the name server of this file, and mail servers on loopback where it may. */
function open(environment: Record<string, string> = {}): Verifier {
  const defaults = { VERIFY_DNS_SERVERS: names.address, VERIFY_DOMAIN_INTERVAL_MS: '0' };
  const verifier = openVerifier(parseConfig({ ...defaults, ...environment }));
  opened.push(verifier);
  return verifier;
}

/** The same, with mail servers asked at a port. */
const asking = (port: number, environment: Record<string, string> = {}) =>
  open({
    VERIFY_SMTP: 'on',
    VERIFY_SMTP_PORT: `${port}`,
    VERIFY_PRIVATE_ADDRESSES: 'on',
    VERIFY_SMTP_TIMEOUT_MS: '1000',
    ...environment,
  });

/** A domain whose mail goes to the server on loopback. */
const mailDomain = () => {
  const host = names.name(loopback);
  return { host, domain: names.name({ mx: [[10, host]] }) };
};

const takeAda = (recipient: string) =>
  recipient.startsWith('ada@') ? undefined : { code: 550, text: '5.1.1 No such user here' };

describe('without asking mail servers', () => {
  const verifier = open();
  const impatient = open({ VERIFY_DNS_TIMEOUT_MS: '200' });
  const status = async (address: string) => (await verifier.verify(address)).status;

  it('an address is verified when its domain names a mail server, whatever the case and the white space around it', async () => {
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

  it('the host of the lowest preference is the first', async () => {
    const domain = names.name({
      mx: [
        [20, 'second.test'],
        [10, 'first.test'],
      ],
    });
    expect((await verifier.verify(`a@${domain}`)).checks.mx).toEqual({ status: 'passed', host: 'first.test' });
  });

  it.each([{ a: ['127.0.0.1'] }, { aaaa: ['::1'] }])(
    'a domain with an address and no MX is its own host: %j',
    async (answer) => {
      const domain = names.name(answer);
      expect(await verifier.verify(`a@${domain}`)).toMatchObject({
        status: 'verified',
        checks: { mx: { status: 'passed', host: domain } },
      });
    },
  );

  it('a domain that names no mail server by an empty MX takes no mail, though it has an address (RFC 7505)', async () => {
    const domain = names.name({ mx: [[0, '']], ...loopback });
    expect(await verifier.verify(`a@${domain}`)).toMatchObject({
      status: 'invalid',
      checks: { mx: { status: 'failed', reason: 'null_mx' } },
    });
  });

  it('a domain that is not there, or has neither MX nor address, takes no mail', async () => {
    expect((await verifier.verify(`a@${randomDomain()}`)).checks.mx).toEqual({ status: 'failed', reason: 'no_domain' });
    const empty = await verifier.verify(`a@${names.name({})}`);
    expect(empty).toMatchObject({ status: 'invalid', checks: { mx: { status: 'failed', reason: 'no_records' } } });
  });

  it.each(['silent', 'servfail', 'refused', 'garbage'] as const)(
    'a resolver that is %s makes it unknown, never invalid',
    async (answer) => {
      const { status, checks } = await impatient.verify(`a@${names.name(answer)}`);
      expect(status).toBe('unknown');
      expect(checks.mx).toEqual({ status: 'unknown', reason: expect.stringMatching(/^dns_/) });
    },
  );

  it('so does one that is not there at all', async () => {
    const alone = open({ VERIFY_DNS_SERVERS: '127.0.0.1:1' });
    expect((await alone.verify(`a@${randomDomain()}`)).status).toBe('unknown');
  });

  it('and one that takes longer than the deadline', async () => {
    const hurried = open({ VERIFY_DNS_TIMEOUT_MS: '60000', VERIFY_DEADLINE_MS: '100' });
    expect(await hurried.verify(`a@${names.name('silent')}`)).toMatchObject({
      status: 'unknown',
      checks: { mx: { reason: 'deadline' } },
    });
  });

  it('what is no address is invalid, and nobody is asked', async () => {
    const { status, checks } = await verifier.verify('no address');
    expect(status).toBe('invalid');
    expect(checks).toMatchObject({
      syntax: { status: 'failed', reason: expect.any(String) },
      mx: { status: 'not_checked' },
    });
  });

  it('the number of a machine is no domain that takes mail', async () => {
    expect(await verifier.verify('a@[127.0.0.1]')).toMatchObject({
      status: 'invalid',
      checks: { syntax: { status: 'passed' }, mx: { status: 'failed', reason: 'address_literal' } },
    });
  });

  it('a domain in another script is asked for in its ASCII form', async () => {
    const name = randomDomain();
    const ascii = new URL(`http://bü${name}`).hostname;
    names.name({ mx: [[10, 'mail.test']] }, ascii);
    expect(await status(`a@bü${name}`)).toBe('verified');
  });

  it('a disposable domain is known by its name and by the names below it, whatever the DNS says', async () => {
    expect(await verifier.verify('info@mailinator.com')).toMatchObject({
      status: 'disposable',
      checks: { disposable: { status: 'failed', domain: 'mailinator.com' }, mx: { status: 'failed' } },
    });
    expect(await status('ada@a.b.Mailinator.com')).toBe('disposable');
    expect(await status(`ada@${randomDomain().replace('.test', '')}mailinator.com`)).toBe('invalid');
  });

  it('a role account is not to be mailed, whatever its case and tag, whether its domain takes mail or not', async () => {
    const { domain } = mailDomain();
    for (const local of ['info', 'INFO', 'sales+spring', 'postmaster', 'abuse', 'no-reply', '"admin"'])
      expect(await status(`${local}@${domain}`), local).toBe('do_not_mail');
    expect(await verifier.verify(`info@${randomDomain()}`)).toMatchObject({
      status: 'do_not_mail',
      checks: { role: { status: 'failed', account: 'info' }, mx: { status: 'failed' } },
    });
    expect(await status(`informant@${domain}`)).toBe('verified');
  });

  it('many addresses of one domain ask once, at the same time and afterwards', async () => {
    const { domain } = mailDomain();
    await Promise.all(Array.from({ length: 1_000 }, (_, i) => verifier.verify(`a${i}@${domain}`)));
    await verifier.verify(`b@${domain}`);
    expect(names.asked(domain)).toEqual(['MX']);
  });

  it('that there was no answer is shared by those who wait for it together', async () => {
    const domain = names.name('silent');
    const all = await Promise.all(Array.from({ length: 1_000 }, (_, i) => impatient.verify(`a${i}@${domain}`)));
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set(['unknown']));
    expect(names.asked(domain).length).toBeLessThanOrEqual(2);
  });
});

describe('asking a mail server that behaves', () => {
  it('tells the mailbox that is there from the one that is not, says goodbye and sends no mail', async () => {
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

  it('without a name and a sender it is the number it calls from, and nobody', async () => {
    const server = await startMailServer(takeAda);
    expect((await asking(server.port).verify(`ada@${mailDomain().domain}`)).status).toBe('verified');
    expect([server.senders, server.names]).toEqual([[''], ['[127.0.0.1]']]);
  });

  it('a domain that takes any mailbox is accept_all, which is asked once', async () => {
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

  it('that a domain does not take any mailbox is asked once too', async () => {
    const server = await startMailServer((one) =>
      /^[a-z]{3}@/.test(one) ? undefined : { code: 550, text: 'No such user' },
    );
    const verifier = asking(server.port);
    const { domain } = mailDomain();
    for (const local of ['ada', 'bob', 'eve'])
      expect((await verifier.verify(`${local}@${domain}`)).status).toBe('verified');
    expect(server.recipients).toHaveLength(4);
  });

  it('who is disposable, a role, or cannot be mailed is not asked for', async () => {
    const server = await startMailServer(() => undefined);
    const verifier = asking(server.port);
    const { domain } = mailDomain();
    expect((await verifier.verify(`info@${domain}`)).checks.smtp).toEqual({ status: 'not_checked' });
    await verifier.verify(`ada@${names.name({ mx: [[0, '']] })}`);
    expect(server.calls).toHaveLength(0);
  });

  it.each([
    [450, 'Greylisted, come back later'],
    [451, '4.7.1 Greylisting in action'],
    [421, 'Too busy'],
    [452, '4.2.2 Mailbox full'],
    [550, '5.7.1 Blocked by policy'],
    [550, 'Your host is listed at dnsbl.example'],
    [554, 'No thanks'],
    [552, '5.2.2 Mailbox full'],
    [550, '5.1.8 Sender unknown'],
    [503, 'Bad sequence'],
  ])('%i %s says nothing of the mailbox: unknown', async (code, text) => {
    const server = await startMailServer(() => ({ code, text }));
    const { status, checks } = await asking(server.port).verify(`ada@${mailDomain().domain}`);
    expect(status).toBe('unknown');
    expect(checks.smtp).toMatchObject({ status: 'unknown', code });
  });

  it.each([
    [550, 'No such user'],
    [550, '<ada@blocklist.example> user unknown'],
    [550, '5.4.1 Recipient address rejected: Access denied'],
    [553, 'Mailbox name not allowed'],
    [554, '5.1.1 Unknown'],
    [550, '5.2.1 Disabled'],
  ])('%i %s refuses the mailbox: invalid', async (code, text) => {
    const server = await startMailServer(() => ({ code, text }));
    expect((await asking(server.port).verify(`ada@${mailDomain().domain}`)).status).toBe('invalid');
  });

  it('a mailbox that is taken where nobody says of a random one is unknown', async () => {
    const server = await startMailServer((one) => (one.startsWith('ada@') ? undefined : { code: 451, text: 'Later' }));
    const { status, checks } = await asking(server.port).verify(`ada@${mailDomain().domain}`);
    expect([status, checks.smtp.reason]).toEqual(['unknown', 'catch_all_undecided']);
  });

  it('a local part in another script is asked for where that is spoken, else unknown', async () => {
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

  it('goes on with the next server where one does not say', async () => {
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

  it('a temporary refusal by one server is not the last word', async () => {
    const server = await startRudeServer((socket, call) =>
      scripted('220 hi\r\n', {
        EHLO: '250 hi\r\n',
        MAIL: '250 ok\r\n',
        RCPT: call === 1 ? '451 later\r\n' : '550 5.1.1 no\r\n',
      })(socket),
    );
    const domain = names.name({
      mx: [
        [1, names.name(loopback)],
        [2, names.name(loopback)],
      ],
    });
    expect((await asking(server.port).verify(`ada@${domain}`)).status).toBe('invalid');
    expect(server.calls).toBe(2);
  });

  it('an old server is greeted the old way', async () => {
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

describe('machines outside the public net', () => {
  it.each([
    { a: ['127.0.0.1'] },
    { a: ['10.0.0.1', '192.168.0.1'] },
    { a: ['169.254.169.254'] },
    { aaaa: ['::1', '::ffff:127.0.0.1'] },
  ])('are never called: %j', async (answer) => {
    const server = await startMailServer(() => undefined);
    const verifier = asking(server.port, { VERIFY_PRIVATE_ADDRESSES: 'off' });
    const host = names.name(answer);
    for (const domain of [names.name({ mx: [[1, host]] }), host])
      expect(await verifier.verify(`ada@${domain}`)).toMatchObject({
        status: 'unknown',
        checks: { smtp: { status: 'unknown', reason: 'not_public' } },
      });
    expect(server.calls).toHaveLength(0);
  });

  it('are not called by number in an MX record either', async () => {
    const server = await startMailServer(() => undefined);
    const domain = names.name({ mx: [[1, '127.0.0.1']] });
    expect((await asking(server.port).verify(`ada@${domain}`)).status).toBe('unknown');
    expect(server.calls).toHaveLength(0);
  });
});

describe('asking a server that misbehaves', () => {
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
    'that says nothing': ['timeout', () => undefined],
    'that hangs up at once': ['closed', (socket) => socket.end()],
    'that resets at once': ['closed', (socket) => socket.resetAndDestroy()],
    'that does not serve': ['not_served', scripted('554 go away\r\n', good)],
    'that is busy': ['not_served', scripted('421 later\r\n', good)],
    'that says half a line': ['timeout', scripted('220 almo', good)],
    'that speaks another language': ['garbage', scripted('SSH-2.0-OpenSSH_9.9\r\n', good)],
    'that speaks in bytes': [
      'garbage',
      scripted(Buffer.from([0, 255, 128, 10, 13, 0]).toString('latin1') + '\r\n', good),
    ],
    'with an endless line': ['garbage', endless('2')],
    'with an endless banner': ['garbage', endless('220-still here\r\n')],
    'that is slow, a byte at a time': [
      'timeout',
      (socket) => {
        const timer = setInterval(() => socket.write('2'), 20);
        socket.on('close', () => clearInterval(timer));
      },
    ],
    'that replies in a row before it is asked': [
      'garbage',
      scripted('220 hi\r\n250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n', {}),
    ],
    'that changes its code in a reply': ['garbage', scripted('220 hi\r\n', { ...good, EHLO: '250-hi\r\n550 no\r\n' })],
    'with a code of no meaning': ['garbage', scripted('220 hi\r\n', { ...good, RCPT: '999 hm\r\n' })],
    'that asks for data': ['temporary', scripted('220 hi\r\n', { ...good, RCPT: '354 go on\r\n' })],
    'that refuses the greeting': [
      'not_served',
      scripted('220 hi\r\n', { ...good, EHLO: '550 no\r\n', HELO: '550 no\r\n' }),
    ],
    'that refuses the sender': [
      'sender_refused',
      scripted('220 hi\r\n', { ...good, MAIL: '550 5.1.1 no such sender\r\n' }),
    ],
    'that is silent at EHLO': ['timeout', scripted('220 hi\r\n', {})],
    'that is silent at MAIL': ['timeout', scripted('220 hi\r\n', { EHLO: '250 hi\r\n' })],
    'that is silent at RCPT': ['timeout', scripted('220 hi\r\n', { EHLO: '250 hi\r\n', MAIL: '250 ok\r\n' })],
    'that hangs up at EHLO': ['closed', scripted('220 hi\r\n', { EHLO: (socket) => socket.end() })],
    'that hangs up at MAIL': ['closed', scripted('220 hi\r\n', { ...good, MAIL: (socket) => socket.destroy() })],
    'that hangs up at RCPT': [
      'closed',
      scripted('220 hi\r\n', { ...good, RCPT: (socket) => socket.resetAndDestroy() }),
    ],
    'that hangs up in a reply': [
      'closed',
      scripted('220 hi\r\n', { ...good, RCPT: (socket) => socket.end('550-5.1.1 no') }),
    ],
    'with an endless reply': ['garbage', scripted('220 hi\r\n', { ...good, RCPT: endless('250-yes\r\n') })],
  };

  it.each(Object.entries(cases))('%s makes it unknown, in time', async (_name, [reason, behave]) => {
    const server = await startRudeServer(behave);
    const verifier = asking(server.port, { VERIFY_SMTP_TIMEOUT_MS: '300' });
    const { status, checks } = await verifier.verify(`ada@${mailDomain().domain}`);
    expect([status, checks.smtp.status, checks.smtp.reason]).toEqual(['unknown', 'unknown', reason]);
    expect(server.heard.join('')).not.toContain('DATA');
    await expect.poll(() => server.callers.size).toBe(0);
  });

  it('nobody who answers is unknown', async () => {
    expect(await asking(1).verify(`ada@${mailDomain().domain}`)).toMatchObject({
      status: 'unknown',
      checks: { smtp: { reason: 'refused' } },
    });
  });

  it('a host without an address, or whose address the resolver does not say, is unknown', async () => {
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

  it('a server that does not let go of the dialog costs no more than the deadline', async () => {
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

  it('hold for all who ask at once', async () => {
    const crowd = gather(3);
    const server = await startMailServer(takeAdaWith(crowd));
    const verifier = asking(server.port, { VERIFY_DOMAIN_CONNECTIONS: '3', VERIFY_SMTP_TIMEOUT_MS: '20000' });
    const { domain } = mailDomain();
    await Promise.all(Array.from({ length: 40 }, (_, i) => verifier.verify(`a${i}@${domain}`)));
    expect(server.calls).toHaveLength(40);
    expect(crowd.mostAtOnce).toBe(3);
  });

  it('hold for all domains together', async () => {
    const crowd = gather(4);
    const server = await startMailServer(takeAdaWith(crowd));
    const verifier = asking(server.port, { VERIFY_CONNECTIONS: '4', VERIFY_SMTP_TIMEOUT_MS: '20000' });
    await Promise.all(Array.from({ length: 40 }, () => verifier.verify(`ada@${mailDomain().domain}`)));
    expect(server.calls).toHaveLength(40);
    expect(crowd.mostAtOnce).toBe(4);
  });

  it('are shared by those who want many places at a domain, each in turn', async () => {
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

  it('keep their distance in time, also after a pause', async () => {
    const server = await startMailServer(takeAda);
    const verifier = asking(server.port, { VERIFY_DOMAIN_INTERVAL_MS: '300' });
    const { domain } = mailDomain();
    for (let i = 0; i < 3; i += 1) await verifier.verify(`a${i}@${domain}`);
    await Promise.all([3, 4, 5].map((i) => verifier.verify(`a${i}@${domain}`)));
    const distances = server.calls.slice(1).map((time, i) => time - server.calls[i]!);
    // When a call was seen is not when it began, by what the two ends were late.
    expect(distances.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(5 * 300 - 100);
  });

  it('let those who wait give up, and not those whose turn it is', async () => {
    let answer = () => undefined as void;
    const asked = new Promise<void>((resolve) => (answer = resolve));
    const server = await startMailServer(async () => {
      await asked;
      return { code: 550, text: '5.1.1 No such user' };
    });
    const verifier = asking(server.port, { VERIFY_DOMAIN_CONNECTIONS: '1', VERIFY_SMTP_TIMEOUT_MS: '20000' });
    const { domain } = mailDomain();
    const stop = new AbortController();
    const begun = verifier.verify(`ada@${domain}`, stop.signal);
    await expect.poll(() => server.recipients).toHaveLength(1);
    const waiting = verifier.verify(`bob@${domain}`, stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    answer();
    expect((await begun).status).toBe('invalid');
    expect(server.recipients).toEqual([`ada@${domain}`]);
    expect((await verifier.verify(`eve@${domain}`)).status).toBe('invalid');
  });

  it('end with the verifier', async () => {
    const server = await startRudeServer(() => undefined);
    const verifier = asking(server.port, { VERIFY_SMTP_TIMEOUT_MS: '60000' });
    const under = verifier.verify(`ada@${mailDomain().domain}`);
    await expect.poll(() => server.callers.size).toBe(1);
    await verifier.close();
    expect((await under).status).toBe('unknown');
    await expect.poll(() => server.callers.size).toBe(0);
  });
});
