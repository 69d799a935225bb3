import { createConnection, isIPv6, type Socket } from 'node:net';
import { randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { VerificationChecks } from '../schemas/verification.ts';
import type { Config } from '../process/config.ts';
import type { Address, Dns } from './mail-hosts.ts';
import { isPublic } from '../process/ip-addresses.ts';

interface Reply {
  code: number;
  enhanced?: string;
  lines: string[];
}

/**
 * Thrown if a mail server breaks the protocol or the connection fails. `reason` is machine-readable, such as `timeout`.
 */
class SmtpFault extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`The mail server failed: ${reason}`);
    this.reason = reason;
  }
}

/**
 * Limits of one reply: characters of a line, and number of lines. Some servers send more than the 512 characters of RFC
 * 5321.
 */
const replyLimits = { lineLength: 2_048, lines: 64 };

/**
 * Parses an enhanced status code (RFC 3463), such as `5.1.1`, at the start of a text. Returns an empty object if the
 * text has none, or its first digit contradicts the reply's code (such as 550).
 */
function enhancedCode(code: number, text: string): { enhanced?: string } {
  const enhanced = /^([245]\.\d{1,3}\.\d{1,3})\b/.exec(text)?.[1];
  return enhanced?.startsWith(`${code}`[0]!) ? { enhanced } : {};
}

/**
 * Enhanced status codes (RFC 3463) of a mailbox that does not exist or is disabled. Exchange Online uses 5.4.1 for
 * unknown recipients.
 */
const noMailbox = new Set(['5.1.1', '5.1.2', '5.1.3', '5.1.6', '5.1.10', '5.2.1', '5.4.1']);
/**
 * Matches words which show that a rejection does not concern the mailbox, but the sender's reputation, a limit, or a
 * temporary problem.
 */
const notOfMailbox =
  /\b(spam\w*|block\w*|black ?list\w*|grey ?list\w*|gr[ae]y|listed|dns\w*|rbl|ptr|spf|dkim|dmarc|reverse|relay\w*|helo|ehlo|sender|authent\w*|tls|rate|too many|limit\w*|try again|later|tempor\w*|full|quota|banned|denied|prohibited|policy|reputation|https?)\b/i;

/**
 * Decides from the reply to RCPT whether the mailbox exists. `undecided`: the rejection can have another cause, such as
 * the sender or a limit.
 */
function judge({ code, enhanced, lines }: Reply): 'taken' | 'refused' | 'undecided' {
  if (code === 250 || code === 251) return 'taken';
  if (code < 500) return 'undecided';
  if (enhanced !== undefined) return noMailbox.has(enhanced) ? 'refused' : 'undecided';
  const isOfMailbox = code === 550 || code === 551 || code === 553;
  // Removes addresses that the reply repeats, because they may contain any word.
  const words = lines.join(' ').replaceAll(/\S*@\S*/g, '');
  return isOfMailbox && !notOfMailbox.test(words) ? 'refused' : 'undecided';
}

const dialogBytes = 64 * 1024;
const goodbyeMs = 1_000;

/**
 * An SMTP connection. Sends one command at a time, and waits for its reply. Does not use an SMTP library, because those
 * send mail and cannot stop after RCPT.
 */
class SmtpDialog {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  /** Code and lines of the reply that is being read. */
  #code: number | undefined;
  #lines: string[] = [];
  #text = '';
  #bytes = 0;
  #fault: SmtpFault | undefined;
  #wake: (() => void) | undefined;

  /**
   * Opens the connection. The first `reply` is the server's greeting, which it sends without being asked.
   * @param address an IP address, because a host name could resolve to one that was not checked
   */
  constructor(address: string, config: Config, signal: AbortSignal) {
    this.#timeoutMs = config.VERIFY_SMTP_TIMEOUT_MS;
    this.#socket = createConnection({ host: address, port: config.VERIFY_SMTP_PORT, signal });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (data) => this.#hear(data));
    this.#socket.on('error', (error: NodeJS.ErrnoException) => this.#end(reasonOf(error)));
    this.#socket.on('close', () => this.#end('closed'));
  }

  /** Returns the local IP address, such as `[192.0.2.1]`. EHLO sends it in place of a host name (RFC 5321, 4.1.4). */
  get ownLiteral(): string {
    const { localAddress = '127.0.0.1' } = this.#socket;
    return isIPv6(localAddress) ? `[IPv6:${localAddress}]` : `[${localAddress}]`;
  }

  async command(line: string): Promise<Reply> {
    // The server has sent a reply before this command. Replies and commands would not match any more.
    if (this.#text !== '') this.#leave('garbage');
    if (this.#fault) throw this.#fault;
    this.#socket.write(`${line}\r\n`);
    return this.reply();
  }

  async reply(): Promise<Reply> {
    const timer = setTimeout(() => this.#leave('timeout'), this.#timeoutMs);
    try {
      for (;;) {
        const reply = this.#nextReply();
        if (reply) return reply;
        if (this.#fault) throw this.#fault;
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    if (this.#socket.destroyed) return;
    const closed = new Promise((resolve) => this.#socket.once('close', resolve));
    const timer = setTimeout(() => this.#socket.destroy(), goodbyeMs);
    if (this.#fault || this.#socket.connecting) this.#socket.destroy();
    else this.#socket.end('QUIT\r\n');
    await closed;
    clearTimeout(timer);
  }

  #hear(data: Buffer): void {
    this.#bytes += data.length;
    // One character for each byte. The parts of a reply that matter are ASCII.
    this.#text += data.toString('latin1');
    if (this.#bytes > dialogBytes) this.#leave('garbage');
    this.#wake?.();
  }

  #nextReply(): Reply | undefined {
    for (let end = this.#text.indexOf('\n'); end >= 0; end = this.#text.indexOf('\n')) {
      const line = this.#text.slice(0, end).replace(/\r$/, '');
      this.#text = this.#text.slice(end + 1);
      const reply = this.#take(line);
      if (reply) return reply;
    }
    if (this.#text.length > replyLimits.lineLength) this.#leave('garbage');
    return undefined;
  }

  #take(line: string): Reply | undefined {
    const [, digits, mark = ' ', text = ''] = /^([2-5]\d\d)(?:([ -])(.*))?$/s.exec(line) ?? [];
    const code = Number(digits);
    const isTooLong = line.length > replyLimits.lineLength || this.#lines.length === replyLimits.lines;
    if (isTooLong || digits === undefined || (this.#code ?? code) !== code) {
      this.#leave('garbage');
      throw new SmtpFault('garbage');
    }
    this.#code = code;
    this.#lines.push(text);
    if (mark === '-') return undefined;
    const lines = this.#lines;
    [this.#code, this.#lines] = [undefined, []];
    return { code, lines, ...enhancedCode(code, text) };
  }

  #leave(reason: string): void {
    this.#end(reason);
    this.#socket.destroy();
  }

  #end(reason: string): void {
    this.#fault ??= new SmtpFault(reason);
    this.#wake?.();
  }
}

/** Reasons of an `SmtpFault` by error code of the socket. Any other code means `unreachable`. */
const reasons: Record<string, string> = {
  ABORT_ERR: 'deadline',
  ECONNREFUSED: 'refused',
  ECONNRESET: 'closed',
  EPIPE: 'closed',
  ETIMEDOUT: 'timeout',
};

const reasonOf = ({ code = '' }: NodeJS.ErrnoException): string => reasons[code] ?? 'unreachable';

export type SmtpCheck = VerificationChecks['smtp'];

/**
 * Asks the mail servers of a domain whether a mailbox exists, one server after the other. Stops at the first definite
 * reply. Sends no mail. Returns `unknown` if the signal aborts.
 */
type Probe = (address: Address, hosts: readonly string[], signal: AbortSignal) => Promise<SmtpCheck>;

const maxServers = 6;
const maxCachedDomains = 10_000;
const cacheMs = 10 * 60_000;

export function openProbe(dns: Dns, config: Config): Probe {
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
    if (config.VERIFY_PRIVATE_ADDRESSES === 'off' && !isPublic(ip))
      return { status: 'unknown', host, reason: 'not_public' };
    const dialog = new SmtpDialog(ip, config, signal);
    try {
      return { host, ...(await ask(dialog, address, takesAny, config)) };
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
  reason?: string;
}

/**
 * Yields up to six servers, one for each IP address of the hosts. Yields the reason for a host without addresses. Looks
 * up the next host only when it is needed.
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
  { VERIFY_SMTP_SENDER: sender = '', VERIFY_SMTP_NAME: name }: Config,
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
 * Asks for a random mailbox, which cannot exist. Returns `accept_all` if the server accepts it. Then the reply about
 * the real mailbox proves nothing.
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

async function greet(dialog: SmtpDialog, name: string): Promise<Reply> {
  const reply = await dialog.command(`EHLO ${name}`);
  return reply.code >= 500 ? dialog.command(`HELO ${name}`) : reply;
}

const undecided = (reply: Reply, reason: string): SmtpCheck => ({ status: 'unknown', reason, ...codesOf(reply) });

const codesOf = ({ code, enhanced }: Reply): Pick<SmtpCheck, 'code' | 'enhanced_code'> => ({
  code,
  ...(enhanced === undefined ? {} : { enhanced_code: enhanced }),
});
