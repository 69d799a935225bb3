import { createConnection, isIPv6, type Socket } from 'node:net';
import { replyLimits, ReplyReader, SmtpFault, type Reply } from './smtp-replies.ts';

/** More than a whole dialog needs; a server that says more is left. */
const dialogBytes = 64 * 1024;
/** How long a server may take to say goodbye (ms). */
const goodbyeMs = 1_000;

export interface DialogOptions {
  port: number;
  /** Longest wait for the connection and for each reply (ms). */
  timeoutMs: number;
  /** Ends the dialog, whatever it is at. */
  signal: AbortSignal;
}

/**
 * A dialog with a mail server: one command, one reply. Written here because the libraries for SMTP send mail, and have no
 * way to leave after RCPT.
 */
export class SmtpDialog {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #reader = new ReplyReader();
  #text = '';
  #bytes = 0;
  #fault: SmtpFault | undefined;
  /** Called when more was said, or the dialog is over. */
  #wake: (() => void) | undefined;

  /**
   * Calls the server; it speaks first: see `reply`.
   * @param address an IP address, so that nobody is asked for it, and what was checked is what is called
   */
  constructor(address: string, { port, timeoutMs, signal }: DialogOptions) {
    this.#timeoutMs = timeoutMs;
    this.#socket = createConnection({ host: address, port, signal });
    this.#socket.setNoDelay(true);
    this.#socket.on('data', (data) => this.#hear(data));
    this.#socket.on('error', (error: NodeJS.ErrnoException) => this.#end(reasonOf(error)));
    this.#socket.on('close', () => this.#end('closed'));
  }

  /** What this machine is called where it has no name: the number it calls from (RFC 5321, 4.1.4). */
  get ownLiteral(): string {
    const { localAddress = '127.0.0.1' } = this.#socket;
    return isIPv6(localAddress) ? `[IPv6:${localAddress}]` : `[${localAddress}]`;
  }

  /**
   * Sends a command and waits for its reply.
   * @throws SmtpFault
   */
  async command(line: string): Promise<Reply> {
    // A reply that came before its question is none of it; nor would the next ones be.
    if (this.#text !== '') this.#leave('garbage');
    if (this.#fault) throw this.#fault;
    this.#socket.write(`${line}\r\n`);
    return this.reply();
  }

  /**
   * Waits for what the server says next.
   * @throws SmtpFault
   */
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

  /** Says goodbye and leaves, without waiting long for an answer. */
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
    // Bytes, not characters: whatever the script, what decides is ASCII.
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

  /** The first fault is the one that counts. */
  #end(reason: string): void {
    this.#fault ??= new SmtpFault(reason);
    this.#wake?.();
  }
}

const reasons: Record<string, string> = {
  ABORT_ERR: 'deadline',
  ECONNREFUSED: 'refused',
  ECONNRESET: 'closed',
  EPIPE: 'closed',
  ETIMEDOUT: 'timeout',
};

const reasonOf = ({ code = '' }: NodeJS.ErrnoException): string => reasons[code] ?? 'unreachable';
