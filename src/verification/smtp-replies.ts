/** An SMTP reply of a mail server (RFC 5321, 4.2). */
export interface Reply {
  code: number;
  /** The enhanced status code (RFC 3463), if the reply contains one. */
  enhanced?: string;
  /** The text of each line of the reply, without the code at its start. */
  lines: string[];
}

/**
 * Error of an SMTP connection: the mail server broke the protocol, or the connection failed. `reason` is a
 * machine-readable cause, such as `timeout`.
 */
export class SmtpFault extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`The mail server failed: ${reason}`);
    this.reason = reason;
  }
}

/**
 * The maximum length of a line (characters) and the maximum number of lines in one SMTP reply. RFC 5321 allows lines of
 * 512 characters, but some servers send longer lines.
 */
export const replyLimits = { lineLength: 2_048, lines: 64 };

/** Parses the SMTP replies of a mail server line by line. */
export class ReplyReader {
  #code: number | undefined;
  #lines: string[] = [];

  /**
   * Parses the next line of a reply.
   * @returns The whole reply if this line was its last, otherwise undefined.
   * @throws SmtpFault if the line is not part of a valid reply.
   */
  take(line: string): Reply | undefined {
    const [, digits, mark = ' ', text = ''] = /^([2-5]\d\d)(?:([ -])(.*))?$/s.exec(line) ?? [];
    const code = Number(digits);
    if (digits === undefined || (this.#code ?? code) !== code) throw new SmtpFault('garbage');
    this.#code = code;
    this.#lines.push(text);
    if (this.#lines.length > replyLimits.lines) throw new SmtpFault('garbage');
    if (mark === '-') return undefined;
    const lines = this.#lines;
    [this.#code, this.#lines] = [undefined, []];
    return { code, lines, ...enhancedCode(code, text) };
  }
}

/**
 * Parses the enhanced status code (RFC 3463), such as `5.1.1`, at the start of a reply's text. Returns an empty object
 * if the text has no such code, or if its first digit contradicts the reply code.
 * @param code The reply code, such as 550.
 */
function enhancedCode(code: number, text: string): { enhanced?: string } {
  const enhanced = /^([245]\.\d{1,3}\.\d{1,3})\b/.exec(text)?.[1];
  return enhanced?.startsWith(`${code}`[0]!) ? { enhanced } : {};
}

/**
 * The enhanced status codes (RFC 3463) which mean that a mailbox does not exist or is disabled. Exchange Online uses
 * 5.4.1 for unknown recipients.
 */
const noMailbox = new Set(['5.1.1', '5.1.2', '5.1.3', '5.1.6', '5.1.10', '5.2.1', '5.4.1']);
/**
 * Matches words in a mail server's rejection which show that the mailbox may exist. The cause of the rejection is then
 * something else: the reputation of the sender, a limit, or a temporary problem.
 */
const notOfMailbox =
  /\b(spam\w*|block\w*|black ?list\w*|grey ?list\w*|gr[ae]y|listed|dns\w*|rbl|ptr|spf|dkim|dmarc|reverse|relay\w*|helo|ehlo|sender|authent\w*|tls|rate|too many|limit\w*|try again|later|tempor\w*|full|quota|banned|denied|prohibited|policy|reputation|https?)\b/i;

/**
 * Interprets a mail server's reply to RCPT. Returns `taken` if the mailbox exists, and `refused` if it does not exist.
 * Returns `undecided` for any other rejection, because the sender, a limit or a temporary problem may be the cause.
 */
export function judge({ code, enhanced, lines }: Reply): 'taken' | 'refused' | 'undecided' {
  if (code === 250 || code === 251) return 'taken';
  if (code < 500) return 'undecided';
  if (enhanced !== undefined) return noMailbox.has(enhanced) ? 'refused' : 'undecided';
  const isOfMailbox = code === 550 || code === 551 || code === 553;
  // Removes addresses that the reply repeats, because they may contain any word.
  const words = lines.join(' ').replaceAll(/\S*@\S*/g, '');
  return isOfMailbox && !notOfMailbox.test(words) ? 'refused' : 'undecided';
}
