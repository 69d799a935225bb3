import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import { openCanary } from './canary.ts';

export type MailHosts =
  /** The preferred host first. */
  | { status: 'found'; hosts: readonly string[] }
  /** The domain certainly accepts no mail. */
  | { status: 'none'; reason: 'null_mx' | 'no_domain' | 'no_records' }
  /** The query failed or timed out, or the name server is not believed (`nameServerDoubted`). */
  | { status: 'unknown'; reason: string };

/** The reason if the name server says that a domain does not exist, and is not believed. */
export const nameServerDoubted = 'name_server';

/** No `addresses` means that the host has none. */
type HostAddresses = { status: 'found'; addresses: readonly string[] } | { status: 'unknown'; reason: string };

interface DnsOptions {
  /** As `address` or `address:port`. If empty, those of the operating system are asked. */
  servers: readonly string[];
  /** Of one try (ms). */
  timeoutMs: number;
  tries: number;
  /** Domains that certainly have a mail host. While the server knows none of them, it is not believed. */
  canaries: readonly string[];
}

/** Caches answers. Concurrent queries for the same name share one look-up. */
export interface Dns {
  mailHosts(domain: string): Promise<MailHosts>;
  addresses(host: string): Promise<HostAddresses>;
  close(): void;
}

const maxCachedAnswers = 10_000;
const cacheMs = 5 * 60_000;
/** How long a failure is cached (ms). Short, so that the query is repeated soon. */
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

/** The server says that the domain does not exist, or that it has nothing: a broken one says so of every domain. */
const isDenied = (found: MailHosts): boolean => found.status === 'none' && found.reason !== 'null_mx';

/** Caches answers by queried name. Concurrent calls with the same name share one query. */
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
 * Returns the hosts in the domain's MX records, or the domain itself if it has none (RFC 5321, 5.1). A domain with an
 * empty MX record accepts no mail (RFC 7505).
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

/** Returns a domain without MX records itself, if it has an IP address. */
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
 * Returns the found records, or the failure. `no_records`: the domain exists, but has no records of the queried type.
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
