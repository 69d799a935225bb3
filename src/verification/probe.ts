import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { VerificationChecks } from '../schemas/verification.ts';
import type { Address } from './address.ts';
import type { Dns } from './mail-hosts.ts';
import { isPublic } from './public-address.ts';
import { SmtpDialog } from './smtp-dialog.ts';
import { judge, SmtpFault, type Reply } from './smtp-replies.ts';

export interface ProbeOptions {
  port: number;
  /** Whom the mail would be from; nobody (`<>`) when absent. */
  sender?: string | undefined;
  /** What this machine calls itself; its number when absent. */
  name?: string | undefined;
  /** Longest wait for a connection and for each reply (ms). */
  timeoutMs: number;
  /** Whether machines outside the public net may be called. */
  allowPrivate: boolean;
}

/** What was seen of a mailbox at its mail servers. */
export type SmtpCheck = VerificationChecks['smtp'];

/** Asks the mail servers for the mailbox, in their order, until one says; mail is never sent. */
export type Probe = (address: Address, hosts: readonly string[], signal: AbortSignal) => Promise<SmtpCheck>;

const serversAtMost = 6;
const keptDomains = 10_000;
const keptMs = 10 * 60_000;

/** Opens what asks mail servers. That a domain takes mail for anybody, or not, is kept for a while and not asked again. */
export function openProbe(dns: Dns, options: ProbeOptions): Probe {
  const catchAll = new LRUCache<string, boolean>({ max: keptDomains, ttl: keptMs });

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
  /** Why there is no address. */
  reason?: string;
}

/** The servers behind the hosts, each host asked for when its turn comes. */
async function* serversOf(dns: Dns, hosts: readonly string[]): AsyncGenerator<Server> {
  let called = 0;
  for (const host of hosts) {
    const found = await dns.addresses(host);
    if (found.status === 'unknown') yield { host, reason: found.reason };
    else if (found.addresses.length === 0) yield { host, reason: 'no_address' };
    else
      for (const address of found.addresses) {
        if (called === serversAtMost) return;
        called += 1;
        yield { host, address };
      }
  }
}

/**
 * EHLO, MAIL, RCPT; and where the mailbox is taken, RCPT once more for one that cannot be there.
 * @param takesAny what is known already
 * @throws SmtpFault
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
  return askForNobody(dialog, address.domain, reply);
}

/** Whether the server takes mail for anybody: then that it takes it for one says nothing. */
async function askForNobody(
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

/** Servers of before 1995 know HELO only. */
async function greet(dialog: SmtpDialog, name: string): Promise<Reply> {
  const reply = await dialog.command(`EHLO ${name}`);
  return reply.code >= 500 ? dialog.command(`HELO ${name}`) : reply;
}

const undecided = (reply: Reply, reason: string): SmtpCheck => ({ status: 'unknown', reason, ...codesOf(reply) });

const codesOf = ({ code, enhanced }: Reply): Pick<SmtpCheck, 'code' | 'enhanced_code'> => ({
  code,
  ...(enhanced === undefined ? {} : { enhanced_code: enhanced }),
});
