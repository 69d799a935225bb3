import { parseEnvelope } from '@haraka/email-address';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Verification } from '../schemas/verification.ts';

export interface Address {
  /** The part before the `@`. Its case is unchanged, because only the mail server knows whether case matters. */
  local: string;
  /** The domain in lower case and ASCII (RFC 5890), or an IP address in `[…]`. */
  domain: string;
  /** True if `local` has non-ASCII characters. The mail server must then support SMTPUTF8 (RFC 6531). */
  isInternational: boolean;
}

export class SyntaxFault extends Error {}

/**
 * Parses an address by the grammar of SMTP (RFC 5321, with RFC 6531 for non-ASCII characters). The domain must be fully
 * qualified and within the limits of DNS names (RFC 1035).
 * @throws SyntaxFault
 */
export function parseAddress(text: string): Address {
  const { user, host } = parse(text);
  if (host === '') throw new SyntaxFault('it has no domain');
  const isLiteral = host.startsWith('[');
  if (!isLiteral && !host.includes('.')) throw new SyntaxFault('its domain is not fully qualified');
  if (!isLiteral && host.split('.').some((label) => label.length > 63))
    throw new SyntaxFault('a label of its domain is too long');
  if (host.length > 253) throw new SyntaxFault('its domain is too long');
  return { local: user, domain: host, isInternational: /[^\0-\x7f]/.test(user) };
}

function parse(text: string): { user: string; host: string } {
  // The envelope's grammar also allows angle brackets around an address. They are not part of an address.
  if (text.startsWith('<')) throw new SyntaxFault('it has angle brackets around it');
  if (!text.isWellFormed()) throw new SyntaxFault('it is not valid Unicode');
  try {
    return parseEnvelope(text);
  } catch (error) {
    throw new SyntaxFault(error instanceof Error ? error.message : 'it cannot be parsed', { cause: error });
  }
}

const everyMs = 60_000;

/**
 * Returns a function that tests whether the name server is reliable. It is reliable if it knows a mail host of at least
 * one canary: a domain that certainly has one. Without canaries, it always counts as reliable.
 * @param hasMailHost asks the name server, never a cache
 */
export function openCanary(
  canaries: readonly string[],
  hasMailHost: (domain: string) => Promise<boolean>,
): () => Promise<boolean> {
  let asked: { at: number; answer: Promise<boolean> } | undefined;
  return () => {
    if (canaries.length === 0) return Promise.resolve(true);
    if (!asked || performance.now() - asked.at >= everyMs)
      asked = {
        at: performance.now(),
        answer: Promise.all(canaries.map(hasMailHost)).then((found) => found.includes(true)),
      };
    return asked.answer;
  };
}

export type MailHosts =
  | { status: 'found'; hosts: readonly string[] }
  | { status: 'none'; reason: 'null_mx' | 'no_domain' | 'no_records' }
  /** The query failed or timed out, or the name server is unreliable (`nameServerDoubted`). */
  | { status: 'unknown'; reason: string };

const nameServerDoubted = 'name_server';

export const isDoubted = ({ checks }: Verification): boolean => checks.mx.reason === nameServerDoubted;

type HostAddresses = { status: 'found'; addresses: readonly string[] } | { status: 'unknown'; reason: string };

interface DnsOptions {
  /** DNS servers, each as `address` or `address:port`. Empty: those of the operating system. */
  servers: readonly string[];
  timeoutMs: number;
  tries: number;
  canaries: readonly string[];
}

export interface Dns {
  mailHosts(domain: string): Promise<MailHosts>;
  addresses(host: string): Promise<HostAddresses>;
  close(): void;
}

const maxCachedAnswers = 10_000;
const cacheMs = 5 * 60_000;
/** Milliseconds for which a failed query is cached. Short, so that the query is soon repeated. */
const cacheFailureMs = 5_000;
const hostsOfDomain = 8;

export function openDns({ servers, timeoutMs, tries, canaries }: DnsOptions): Dns {
  const resolver = new Resolver({ timeout: timeoutMs, tries, maxTimeout: timeoutMs });
  if (servers.length > 0) resolver.setServers(servers);
  const isBelieved = openCanary(canaries, async (domain) => (await findMailHosts(resolver, domain)).status === 'found');
  const hosts = cacheAnswers(async (domain): Promise<MailHosts> => {
    const found = await findMailHosts(resolver, domain);
    if (!isDenied(found) || (await isBelieved())) return found;
    return { status: 'unknown', reason: nameServerDoubted };
  });
  const addresses = cacheAnswers((host) => findAddresses(resolver, host));
  return {
    mailHosts: async (domain) => (await hosts.fetch(domain))!,
    addresses: async (host) => (await addresses.fetch(host))!,
    close: () => resolver.cancel(),
  };
}

/**
 * Returns true if the server says that the domain or its records do not exist. A broken name server says this about
 * every domain.
 */
const isDenied = (found: MailHosts): boolean => found.status === 'none' && found.reason !== 'null_mx';

const cacheAnswers = <T extends { status: string }>(ask: (name: string) => Promise<T>) =>
  new LRUCache<string, T>({
    max: maxCachedAnswers,
    ttl: cacheMs,
    // An entry that is evicted during its query still returns the answer to its callers.
    ignoreFetchAbort: true,
    fetchMethod: async (name, _stale, { options }) => {
      const answer = await ask(name);
      if (answer.status === 'unknown') options.ttl = cacheFailureMs;
      return answer;
    },
  });

/**
 * Returns the hosts in the domain's MX records. Returns the domain itself if it has no MX record (RFC 5321, 5.1). A
 * domain with an empty MX record accepts no mail (RFC 7505).
 */
async function findMailHosts(resolver: Resolver, domain: string): Promise<MailHosts> {
  const records = await answerOrNone(resolver.resolveMx(domain));
  if (records === 'no_domain') return { status: 'none', reason: 'no_domain' };
  if (records === 'no_records') return findImplicitHost(resolver, domain);
  if (!Array.isArray(records)) return { status: 'unknown', reason: records.failure };
  const named = records.filter(({ exchange }) => exchange !== '' && exchange !== '.');
  if (named.length === 0) return { status: 'none', reason: 'null_mx' };
  named.sort((a, b) => a.priority - b.priority);
  return { status: 'found', hosts: named.slice(0, hostsOfDomain).map(({ exchange }) => exchange.toLowerCase()) };
}

async function findImplicitHost(resolver: Resolver, domain: string): Promise<MailHosts> {
  const found = await findAddresses(resolver, domain);
  if (found.status === 'unknown') return found;
  if (found.addresses.length === 0) return { status: 'none', reason: 'no_records' };
  return { status: 'found', hosts: [domain] };
}

async function findAddresses(resolver: Resolver, host: string): Promise<HostAddresses> {
  // An MX record must name a host. If it contains an IP address, that is a mistake, and mail servers ignore it too.
  if (isIP(host)) return { status: 'found', addresses: [] };
  const answers = await Promise.all([answerOrNone(resolver.resolve4(host)), answerOrNone(resolver.resolve6(host))]);
  const addresses = answers.flatMap((answer) => (Array.isArray(answer) ? answer : []));
  if (addresses.length > 0) return { status: 'found', addresses };
  for (const answer of answers)
    if (typeof answer === 'object' && 'failure' in answer) return { status: 'unknown', reason: answer.failure };
  return { status: 'found', addresses: [] };
}

/** Returns the records, or the failure. `no_records`: the domain exists, but has no records of the queried type. */
async function answerOrNone<T>(answer: Promise<T[]>): Promise<T[] | 'no_domain' | 'no_records' | { failure: string }> {
  try {
    return await answer;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'failure';
    if (code === 'ENOTFOUND') return 'no_domain';
    if (code === 'ENODATA') return 'no_records';
    return { failure: `dns_${code.replace(/^E/, '').toLowerCase()}` };
  }
}
