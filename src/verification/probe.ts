import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { VerificationChecks } from '../schemas/verification.ts';
import type { Address } from './address.ts';
import type { Dns } from './mail-hosts.ts';
import { isPublic } from '../network/public-address.ts';
import { SmtpDialog } from './smtp-dialog.ts';
import { judge, SmtpFault, type Reply } from './smtp-replies.ts';

interface ProbeOptions {
  port: number;
  /** In `MAIL FROM`. If undefined, the sender is empty (`<>`). */
  sender?: string | undefined;
  /** Host name in `EHLO`. If undefined, the local IP address is sent. */
  name?: string | undefined;
  /** For the connection and for each reply (ms). */
  timeoutMs: number;
  allowPrivate: boolean;
}

export type SmtpCheck = VerificationChecks['smtp'];

/**
 * Asks the mail servers of a domain, one after the other, whether a mailbox exists, until one gives a definite reply.
 * Sends no mail. If the signal aborts, the result is `unknown`.
 */
export type Probe = (address: Address, hosts: readonly string[], signal: AbortSignal) => Promise<SmtpCheck>;

/** Mail servers that are asked about one address. */
const maxServers = 6;
const maxCachedDomains = 10_000;
const cacheMs = 10 * 60_000;

export function openProbe(dns: Dns, options: ProbeOptions): Probe {
  const catchAll = new LRUCache<string, boolean>({ max: maxCachedDomains, ttl: cacheMs });

  return async function probe(address, hosts, signal) {
    if (catchAll.get(address.domain)) return { status: 'accept_all', host: hosts[0]! };
    let last: SmtpCheck = { status: 'unknown', reason: 'no_server' };
    for await (const server of serversOf(dns, hosts)) {
      if (signal.aborted) return { ...last, reason: last.reason ?? 'deadline' };
      const { takesAny, ...seen } = await askServer(server, address, catchAll.get(address.domain), signal);
      if (takesAny !== undefined) catchAll.set(address.domain, takesAny);
      if (seen.status !== 'unknown') return seen;
      last = seen;
    }
    return last;
  };

  async function askServer(
    { host, address: ip, reason }: Server,
    address: Address,
    takesAny: boolean | undefined,
    signal: AbortSignal,
  ): Promise<SmtpCheck & { takesAny?: boolean }> {
    if (ip === undefined) return { status: 'unknown', host, reason: reason! };
    if (!options.allowPrivate && !isPublic(ip)) return { status: 'unknown', host, reason: 'not_public' };
    const dialog = new SmtpDialog(ip, { port: options.port, timeoutMs: options.timeoutMs, signal });
    try {
      return { host, ...(await ask(dialog, address, takesAny, options)) };
    } catch (error) {
      if (!(error instanceof SmtpFault)) throw error;
      return { status: 'unknown', host, reason: error.reason };
    } finally {
      await dialog.close();
    }
  }
}

interface Server {
  host: string;
  address?: string;
  /** Why the host has no known address. Set if `address` is not. */
  reason?: string;
}

/**
 * Yields up to six servers, one for each IP address of the hosts, or the reason why a host has none. Looks up a host's
 * addresses only when the next server is asked for.
 */
async function* serversOf(dns: Dns, hosts: readonly string[]): AsyncGenerator<Server> {
  let called = 0;
  for (const host of hosts) {
    const found = await dns.addresses(host);
    if (found.status === 'unknown') yield { host, reason: found.reason };
    else if (found.addresses.length === 0) yield { host, reason: 'no_address' };
    else
      for (const address of found.addresses) {
        if (called === maxServers) return;
        called += 1;
        yield { host, address };
      }
  }
}

/**
 * Asks one mail server by EHLO, MAIL and RCPT. If it accepts the mailbox, also asks for a random one, to detect a
 * catch-all domain.
 * @param takesAny false if the domain is known not to be catch-all; undefined if this is not known
 * @throws SmtpFault if the server breaks the protocol or the connection fails
 */
async function ask(
  dialog: SmtpDialog,
  address: Address,
  takesAny: boolean | undefined,
  { sender = '', name }: ProbeOptions,
): Promise<SmtpCheck & { takesAny?: boolean }> {
  const greeting = await dialog.reply();
  if (greeting.code !== 220) return undecided(greeting, 'not_served');
  const hello = await greet(dialog, name ?? dialog.ownLiteral);
  if (hello.code !== 250) return undecided(hello, 'not_served');
  const isSpoken = hello.lines.some((line) => /^SMTPUTF8\b/i.test(line));
  if (address.isInternational && !isSpoken) return undecided(hello, 'no_smtputf8');
  const mail = await dialog.command(`MAIL FROM:<${sender}>${address.isInternational ? ' SMTPUTF8' : ''}`);
  if (mail.code !== 250) return undecided(mail, 'sender_refused');
  const reply = await dialog.command(`RCPT TO:<${address.local}@${address.domain}>`);
  const verdict = judge(reply);
  if (verdict === 'refused') return { status: 'failed', ...codesOf(reply) };
  if (verdict === 'undecided') return undecided(reply, reply.code < 500 ? 'temporary' : 'policy');
  if (takesAny === false) return { status: 'passed', ...codesOf(reply) };
  return checkCatchAll(dialog, address.domain, reply);
}

/**
 * Asks for a random mailbox, which cannot exist. If it is accepted, returns `accept_all`: the reply about the real
 * mailbox proves nothing.
 * @param taken the reply that accepted the real mailbox
 */
async function checkCatchAll(
  dialog: SmtpDialog,
  domain: string,
  taken: Reply,
): Promise<SmtpCheck & { takesAny?: boolean }> {
  const nobody = randomBytes(12).toString('hex');
  const reply = await dialog.command(`RCPT TO:<${nobody}@${domain}>`);
  const verdict = judge(reply);
  if (verdict === 'undecided') return undecided(reply, 'catch_all_undecided');
  const takesAny = verdict === 'taken';
  return { status: takesAny ? 'accept_all' : 'passed', ...codesOf(taken), takesAny };
}

/** Greets with HELO if the server rejects EHLO. */
async function greet(dialog: SmtpDialog, name: string): Promise<Reply> {
  const reply = await dialog.command(`EHLO ${name}`);
  return reply.code >= 500 ? dialog.command(`HELO ${name}`) : reply;
}

const undecided = (reply: Reply, reason: string): SmtpCheck => ({ status: 'unknown', reason, ...codesOf(reply) });

const codesOf = ({ code, enhanced }: Reply): Pick<SmtpCheck, 'code' | 'enhanced_code'> => ({
  code,
  ...(enhanced === undefined ? {} : { enhanced_code: enhanced }),
});
