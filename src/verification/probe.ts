import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { VerificationChecks } from '../schemas/verification.ts';
import type { Address } from './address.ts';
import type { Dns } from './mail-hosts.ts';
import { isPublic } from './public-address.ts';
import { SmtpDialog } from './smtp-dialog.ts';
import { judge, SmtpFault, type Reply } from './smtp-replies.ts';

/** Options for asking mail servers over SMTP whether a mailbox exists. */
export interface ProbeOptions {
  port: number;
  /** The sender address in the SMTP command `MAIL FROM`. If undefined, the sender is empty (`<>`). */
  sender?: string | undefined;
  /** The host name in the SMTP command `EHLO`. If undefined, the local IP address is sent. */
  name?: string | undefined;
  /** Timeout for the connection and for each reply (ms). */
  timeoutMs: number;
  /** Whether connections to IP addresses that are not public are allowed. */
  allowPrivate: boolean;
}

/** The result of asking mail servers whether the mailbox of an address exists. */
export type SmtpCheck = VerificationChecks['smtp'];

/**
 * A function that checks whether a mailbox exists: it asks the mail servers of the domain, one after the other, until
 * one of them gives a definite reply. It sends no mail. If the signal aborts, the result is `unknown`.
 */
export type Probe = (address: Address, hosts: readonly string[], signal: AbortSignal) => Promise<SmtpCheck>;

/** The maximum number of mail servers that are asked about one address. */
const maxServers = 6;
/** The maximum number of domains in the cache that stores whether a domain accepts mail for any mailbox (catch-all). */
const maxCachedDomains = 10_000;
/** How long the cache stores whether a domain accepts mail for any mailbox (ms). */
const cacheMs = 10 * 60_000;

/**
 * Returns a function that asks mail servers whether a mailbox exists. The function caches which domains accept mail for
 * any mailbox (catch-all).
 */
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

/** A mail server: a host name and one of its IP addresses. */
interface Server {
  host: string;
  address?: string;
  /** The reason why the host has no known IP address. Set if `address` is not set. */
  reason?: string;
}

/**
 * Yields one mail server for each IP address of the given hosts, up to six mail servers. If a host has no known IP
 * address, yields the reason. Looks up the IP addresses of a host only when the caller asks for the next mail server.
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
 * Asks one mail server whether a mailbox exists, with the SMTP commands EHLO, MAIL and RCPT. If the server accepts the
 * mailbox, also asks for a random mailbox, to detect a domain that accepts any mailbox (catch-all).
 * @param takesAny False if the domain is known not to be catch-all. Undefined if this is not known.
 * @throws SmtpFault if the server breaks the protocol or the connection fails.
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
 * Checks whether a mail server accepts any mailbox (catch-all), by asking for a random mailbox that cannot exist. If
 * so, the status is `accept_all`, because the reply about the real mailbox then proves nothing.
 * @param taken The server's reply that accepted the real mailbox.
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

/** Greets the server with EHLO. If the server rejects EHLO, greets it with the older command HELO. */
async function greet(dialog: SmtpDialog, name: string): Promise<Reply> {
  const reply = await dialog.command(`EHLO ${name}`);
  return reply.code >= 500 ? dialog.command(`HELO ${name}`) : reply;
}

const undecided = (reply: Reply, reason: string): SmtpCheck => ({ status: 'unknown', reason, ...codesOf(reply) });

const codesOf = ({ code, enhanced }: Reply): Pick<SmtpCheck, 'code' | 'enhanced_code'> => ({
  code,
  ...(enhanced === undefined ? {} : { enhanced_code: enhanced }),
});
