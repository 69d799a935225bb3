import { createConnection, isIPv6, type Socket } from 'node:net';
import { replyLimits, ReplyReader, SmtpFault, type Reply } from './smtp-replies.ts';

/** Size of all replies on one connection (bytes). If a server sends more, the connection is closed. */
const dialogBytes = 64 * 1024;
/** How long to wait for the server after QUIT (ms). */
const goodbyeMs = 1_000;

interface DialogOptions {
  port: number;
  /** For the connection and for each reply (ms). */
  timeoutMs: number;
  signal: AbortSignal;
}

/**
 * An SMTP connection. Sends one command at a time and waits for its reply. No SMTP library, because those send mail and
 * cannot stop after RCPT.
 */
export class SmtpDialog {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #reader = new ReplyReader();
  #text = '';
  #bytes = 0;
  #fault: SmtpFault | undefined;
  /** Wakes up a waiting `reply` when bytes have arrived or the connection has ended. */
  #wake: (() => void) | undefined;

  /**
   * Opens the connection. The server sends its greeting first; read it with `reply`.
   * @param address an IP address, because a host name could resolve to one that was not checked
   */
  constructor(address: string, { port, timeoutMs, signal }: DialogOptions) {
    this.#timeoutMs = timeoutMs;
    this.#socket = createConnection({ host: address, port, signal });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (data) => this.#hear(data));
    this.#socket.on('error', (error: NodeJS.ErrnoException) => this.#end(reasonOf(error)));
    this.#socket.on('close', () => this.#end('closed'));
  }

  /** The local IP address in place of a host name in EHLO, such as `[192.0.2.1]` (RFC 5321, 4.1.4). */
  get ownLiteral(): string {
    const { localAddress = '127.0.0.1' } = this.#socket;
    return isIPv6(localAddress) ? `[IPv6:${localAddress}]` : `[${localAddress}]`;
  }

  /**
   * Returns the reply.
   * @throws SmtpFault if the server breaks the protocol or the connection fails
   */
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

  /** Sends QUIT and waits at most one second for the server. */
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
    try {
      if (line.length > replyLimits.lineLength) throw new SmtpFault('garbage');
      return this.#reader.take(line);
    } catch (error) {
      this.#leave((error as SmtpFault).reason);
      throw error;
    }
  }

  #leave(reason: string): void {
    this.#end(reason);
    this.#socket.destroy();
  }

  /** Keeps the first reason, and wakes up a waiting `reply`. */
  #end(reason: string): void {
    this.#fault ??= new SmtpFault(reason);
    this.#wake?.();
  }
}

/** Reasons of an `SmtpFault` by error code of the socket. Any other code is `unreachable`. */
const reasons: Record<string, string> = {
  ABORT_ERR: 'deadline',
  ECONNREFUSED: 'refused',
  ECONNRESET: 'closed',
  EPIPE: 'closed',
  ETIMEDOUT: 'timeout',
};

const reasonOf = ({ code = '' }: NodeJS.ErrnoException): string => reasons[code] ?? 'unreachable';
