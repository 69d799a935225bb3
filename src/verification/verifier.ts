import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import roleAccounts from 'role-based-email-addresses';
import PQueue from 'p-queue';
import { type Address, parseAddress, SyntaxFault, openDns, type MailHosts } from './mail-hosts.ts';
import { FairSemaphore } from '../access/concurrency-limiter.ts';
import type { Config } from '../process/config.ts';
import { within } from '../process/event-loop.ts';
import type { Verification, VerificationChecks } from '../schemas/verification.ts';
import { openProbe, type SmtpCheck } from './probe.ts';

const disposableDomains = disposableEmailBlocklistSet();
const roles = new Set(roleAccounts);

const disposableDomainOf = ({ domain }: Address): string | undefined => {
  const labels = domain.split('.');
  return labels.map((_, i) => labels.slice(i).join('.')).find((suffix) => disposableDomains.has(suffix));
};

const roleOf = ({ local }: Address): string | undefined => {
  const account = local.replaceAll('"', '').split('+')[0]!.toLowerCase();
  return roles.has(account) ? account : undefined;
};

interface Claim {
  owner: string;
  /** Cancels a waiting task: its promise rejects with the signal's reason. Does not stop a running task. */
  signal?: AbortSignal | undefined;
}

/**
 * Returns a function that limits concurrent tasks, for each mail domain and together. All customers share these limits.
 */
function limitDomains(config: Config) {
  const { VERIFY_DOMAIN_CONNECTIONS: concurrency, VERIFY_DOMAIN_INTERVAL_MS: interval } = config;
  const domains = new Map<string, Line>();
  const overall = new Line({ concurrency: config.VERIFY_CONNECTIONS });
  const open = (domain: string): Line => {
    const line = new Line({ concurrency, ...(interval > 0 && { interval, intervalCap: 1, strict: true }) });
    domains.set(domain, line);
    return line;
  };
  return async <T>(domain: string, work: () => Promise<T>, claim: Claim): Promise<T> => {
    const line = domains.get(domain) ?? open(domain);
    try {
      return await line.inTurn(() => overall.inTurn(work, claim), claim);
    } finally {
      const forget = () => {
        if (line.isIdle && domains.get(domain) === line) domains.delete(domain);
      };
      // Until then, the empty queue remembers when its last task started.
      if (line.isIdle) setTimeout(forget, interval).unref();
    }
  };
}

/**
 * A queue that is fair between owners. The first waiting task of each owner runs before the second task of any owner.
 */
class Line {
  readonly #queue: PQueue;
  readonly #waiting = new FairSemaphore(Infinity);

  constructor(options: ConstructorParameters<typeof PQueue>[0]) {
    this.#queue = new PQueue(options);
  }

  get isIdle(): boolean {
    return this.#queue.size === 0 && this.#queue.pending === 0;
  }

  async inTurn<T>(work: () => Promise<T>, { owner, signal }: Claim): Promise<T> {
    signal?.throwIfAborted();
    // PQueue also frees the slot of a running task when its signal aborts, though the task runs on. So it gets its own
    // signal, which aborts only while the task waits.
    const waiting = new AbortController();
    const giveUp = () => waiting.abort(signal?.reason);
    signal?.addEventListener('abort', giveUp, { once: true });
    this.#waiting.take(owner);
    let isWaiting = true;
    const leave = () => {
      signal?.removeEventListener('abort', giveUp);
      if (isWaiting) this.#waiting.release(owner);
      isWaiting = false;
    };
    const begin = () => {
      leave();
      return work();
    };
    try {
      return await this.#queue.add(begin, { signal: waiting.signal, priority: -this.#waiting.heldBy(owner) });
    } finally {
      leave();
    }
  }
}

export interface Verifier {
  /**
   * Verifies an e-mail address. Returns `unknown` if DNS or mail servers fail. Takes at most `VERIFY_DEADLINE_MS`, plus
   * the wait for connections to mail servers.
   * @param signal if it aborts during this wait, the promise rejects with its reason
   * @param owner id of the customer; customers who wait for the same domain are served alternately
   */
  verify(address: string, signal?: AbortSignal, owner?: string): Promise<Verification>;
  close(): Promise<void>;
}

export function openVerifier(config: Config): Verifier {
  const dns = openDns({
    servers: split(config.VERIFY_DNS_SERVERS),
    timeoutMs: config.VERIFY_DNS_TIMEOUT_MS,
    tries: config.VERIFY_DNS_TRIES,
    canaries: split(config.VERIFY_CANARY_DOMAINS),
  });
  const probe = openProbe(dns, config);
  const inTurn = limitDomains(config);
  const closing = new AbortController();

  return {
    verify: async (text, signal, owner = '') => {
      const address = read(text);
      if (address instanceof SyntaxFault)
        return verification({ syntax: { status: 'failed', reason: address.message } });
      const begun = performance.now();
      const found = await findHosts(address);
      const checks = { ...listed(address), mx: mxCheck(found) };
      // If an earlier check has failed, mail servers are not asked.
      if (statusOf(checks) !== 'verified' || found.status !== 'found' || config.VERIFY_SMTP === 'off')
        return verification(checks);
      const left = config.VERIFY_DEADLINE_MS - (performance.now() - begun);
      const smtp = await inTurn(address.domain, () => ask(address, found.hosts, left), { owner, signal });
      return verification({ ...checks, smtp });
    },
    close: async () => {
      closing.abort();
      dns.close();
    },
  };

  async function findHosts({ domain }: Address): Promise<MailHosts | { status: 'literal' }> {
    if (domain.startsWith('[')) return { status: 'literal' };
    const late = (): MailHosts => ({ status: 'unknown', reason: 'deadline' });
    return within(config.VERIFY_DEADLINE_MS, closing.signal, () => dns.mailHosts(domain), late);
  }

  function ask(address: Address, hosts: readonly string[], ms: number): Promise<SmtpCheck> {
    const late = (): SmtpCheck => ({ status: 'unknown', host: hosts[0]!, reason: 'deadline' });
    return within(ms, closing.signal, (signal) => probe(address, hosts, signal), late);
  }
}

function read(text: string): Address | SyntaxFault {
  try {
    return parseAddress(text.trim());
  } catch (error) {
    if (error instanceof SyntaxFault) return error;
    throw error;
  }
}

function listed(address: Address): Pick<VerificationChecks, 'syntax' | 'disposable' | 'role'> {
  const [domain, account] = [disposableDomainOf(address), roleOf(address)];
  return {
    syntax: { status: 'passed' },
    disposable: domain === undefined ? { status: 'passed' } : { status: 'failed', domain },
    role: account === undefined ? { status: 'passed' } : { status: 'failed', account },
  };
}

function mxCheck(found: MailHosts | { status: 'literal' }): VerificationChecks['mx'] {
  if (found.status === 'found') return { status: 'passed', host: found.hosts[0]! };
  // An IP address in place of the domain is valid by RFC 5321, but nobody uses it for business mail, and it has no MX.
  if (found.status === 'literal') return { status: 'failed', reason: 'address_literal' };
  return { status: found.status === 'none' ? 'failed' : 'unknown', reason: found.reason };
}

const unchecked: VerificationChecks = {
  syntax: { status: 'not_checked' },
  disposable: { status: 'not_checked' },
  role: { status: 'not_checked' },
  mx: { status: 'not_checked' },
  smtp: { status: 'not_checked' },
};

const verification = (checks: Partial<VerificationChecks>): Verification => ({
  status: statusOf(checks),
  checks: { ...unchecked, ...checks },
});

function statusOf({ syntax, disposable, role, mx, smtp }: Partial<VerificationChecks>): Verification['status'] {
  if (syntax?.status === 'failed') return 'invalid';
  if (disposable?.status === 'failed') return 'disposable';
  if (role?.status === 'failed') return 'do_not_mail';
  if (mx?.status === 'failed' || smtp?.status === 'failed') return 'invalid';
  if (mx?.status === 'unknown' || smtp?.status === 'unknown') return 'unknown';
  return smtp?.status === 'accept_all' ? 'accept_all' : 'verified';
}

const split = (list = ''): string[] => list.split(',').flatMap((item) => item.trim() || []);
