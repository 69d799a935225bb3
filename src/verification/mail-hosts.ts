import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';

/** The result of a DNS look-up for the mail servers of a domain. */
export type MailHosts =
  /** The host names of the mail servers, the preferred one first. */
  | { status: 'found'; hosts: readonly string[] }
  /** The domain certainly accepts no mail. */
  | { status: 'none'; reason: 'null_mx' | 'no_domain' | 'no_records' }
  /** The DNS query failed or timed out. */
  | { status: 'unknown'; reason: string };

/**
 * The result of a DNS look-up for the IP addresses of a host. An empty array `addresses` means that the host has no IP
 * address.
 */
export type HostAddresses = { status: 'found'; addresses: readonly string[] } | { status: 'unknown'; reason: string };

/** Options of the DNS resolver. */
export interface DnsOptions {
  /**
   * The DNS servers to ask, as `address` or `address:port`. If empty, the DNS servers of the operating system are
   * asked.
   */
  servers: readonly string[];
  /** The timeout of one try of a DNS query (ms). */
  timeoutMs: number;
  /** The maximum number of tries for each DNS query. */
  tries: number;
}

/** A DNS resolver with a cache. Concurrent queries for the same name share one look-up. */
export interface Dns {
  /** Looks up the mail servers of a domain. */
  mailHosts(domain: string): Promise<MailHosts>;
  /** Looks up the IP addresses of a host. */
  addresses(host: string): Promise<HostAddresses>;
  /** Cancels all running DNS queries. */
  close(): void;
}

/** The maximum number of DNS answers in each of the two caches (mail servers, IP addresses). */
const maxCachedAnswers = 10_000;
/** How long the answer to a DNS query is cached (ms). */
const cacheMs = 5 * 60_000;
/** How long a failed DNS query is cached (ms). This time is short, so that the query is repeated soon. */
const cacheFailureMs = 5_000;
/** The maximum number of mail servers that are used for one domain. */
const hostsOfDomain = 8;

/**
 * Returns a DNS resolver with a cache. The resolver sends its queries directly to DNS servers and ignores the hosts
 * file of the system.
 */
export function openDns({ servers, timeoutMs, tries }: DnsOptions): Dns {
  const resolver = new Resolver({ timeout: timeoutMs, tries, maxTimeout: timeoutMs });
  if (servers.length > 0) resolver.setServers(servers);
  const hosts = cacheAnswers((domain) => findMailHosts(resolver, domain));
  const addresses = cacheAnswers((host) => findAddresses(resolver, host));
  return {
    mailHosts: async (domain) => (await hosts.fetch(domain))!,
    addresses: async (host) => (await addresses.fetch(host))!,
    close: () => resolver.cancel(),
  };
}

/**
 * Creates a cache of DNS answers, with the queried name as key. Concurrent calls with the same name share one query.
 */
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
 * Looks up the mail servers of a domain: the hosts in the domain's MX records, or the domain itself if there is no MX
 * record (RFC 5321, 5.1). A domain with an empty MX record accepts no mail (RFC 7505).
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

/** Returns the mail server of a domain without MX records: the domain itself, if it has an IP address. */
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

/**
 * Waits for a DNS query and returns the found records. Returns `no_domain` if the domain does not exist, and
 * `no_records` if the domain exists but has no records of the queried type. If the query failed, returns the failure.
 */
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
