import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';

/** Where the mail of a domain goes. */
export type MailHosts =
  | { status: 'found'; hosts: readonly string[] }
  /** It goes nowhere, for certain. */
  | { status: 'none'; reason: 'null_mx' | 'no_domain' | 'no_records' }
  /** Who was asked did not say. */
  | { status: 'unknown'; reason: string };

/** The addresses of a host; none, for certain, when empty. */
export type HostAddresses = { status: 'found'; addresses: readonly string[] } | { status: 'unknown'; reason: string };

export interface DnsOptions {
  /** `address` or `address:port` of the servers to ask; the system's when empty. */
  servers: readonly string[];
  /** How long one try may take (ms), and how many there are. */
  timeoutMs: number;
  tries: number;
}

/** Asks the DNS. What it said is kept for a while, and what is being asked already is not asked again. */
export interface Dns {
  mailHosts(domain: string): Promise<MailHosts>;
  addresses(host: string): Promise<HostAddresses>;
  close(): void;
}

const keptAnswers = 10_000;
const keptMs = 5 * 60_000;
/** That there was no answer is kept just so long that those who wait together do not ask one after the other. */
const keptUnknownMs = 5_000;
const hostsOfDomain = 8;

/** Opens a resolver of our own: what the system keeps in files, and the names it completes, are not the mail's concern. */
export function openDns({ servers, timeoutMs, tries }: DnsOptions): Dns {
  const resolver = new Resolver({ timeout: timeoutMs, tries, maxTimeout: timeoutMs });
  if (servers.length > 0) resolver.setServers(servers);
  const hosts = keep((domain) => findMailHosts(resolver, domain));
  const addresses = keep((host) => findAddresses(resolver, host));
  return {
    mailHosts: async (domain) => (await hosts.fetch(domain))!,
    addresses: async (host) => (await addresses.fetch(host))!,
    close: () => resolver.cancel(),
  };
}

/** Keeps answers, the latest used longest, and lets everybody who asks the same at once have the same one. */
const keep = <T extends { status: string }>(ask: (name: string) => Promise<T>) =>
  new LRUCache<string, T>({
    max: keptAnswers,
    ttl: keptMs,
    // One that is crowded out while it is asked is still answered to those who wait for it.
    ignoreFetchAbort: true,
    fetchMethod: async (name, _stale, { options }) => {
      const answer = await ask(name);
      if (answer.status === 'unknown') options.ttl = keptUnknownMs;
      return answer;
    },
  });

/** RFC 5321, 5.1: the MX records; where there are none, the domain itself is the host. RFC 7505: one that is empty is a no. */
async function findMailHosts(resolver: Resolver, domain: string): Promise<MailHosts> {
  const records = await asked(resolver.resolveMx(domain));
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
  // An MX record names a host; a number in its place is a mistake that mail servers do not follow.
  if (isIP(host)) return { status: 'found', addresses: [] };
  const answers = await Promise.all([asked(resolver.resolve4(host)), asked(resolver.resolve6(host))]);
  const addresses = answers.flatMap((answer) => (Array.isArray(answer) ? answer : []));
  if (addresses.length > 0) return { status: 'found', addresses };
  for (const answer of answers)
    if (typeof answer === 'object' && 'failure' in answer) return { status: 'unknown', reason: answer.failure };
  return { status: 'found', addresses: [] };
}

/** An answer; that there is none, for certain; or what kept it away. */
async function asked<T>(answer: Promise<T[]>): Promise<T[] | 'no_domain' | 'no_records' | { failure: string }> {
  try {
    return await answer;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'failure';
    if (code === 'ENOTFOUND') return 'no_domain';
    if (code === 'ENODATA') return 'no_records';
    return { failure: `dns_${code.replace(/^E/, '').toLowerCase()}` };
  }
}
