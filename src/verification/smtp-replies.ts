/** RFC 5321, 4.2. */
export interface Reply {
  code: number;
  /** RFC 3463, if the reply contains one. */
  enhanced?: string;
  /** Without the code at the start of each. */
  lines: string[];
}

/** The server broke the protocol, or the connection failed. `reason` is machine-readable, such as `timeout`. */
export class SmtpFault extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`The mail server failed: ${reason}`);
    this.reason = reason;
  }
}

/**
 * Limits of one reply: length of a line (characters) and number of lines. RFC 5321 allows lines of 512 characters, but
 * some servers send longer ones.
 */
export const replyLimits = { lineLength: 2_048, lines: 64 };

/** Parses replies line by line. */
export class ReplyReader {
  #code: number | undefined;
  #lines: string[] = [];

  /**
   * Returns the whole reply if this was its last line.
   * @throws SmtpFault if the line is not part of a valid reply
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
 * Parses an enhanced status code (RFC 3463), such as `5.1.1`, at the start of a text. Returns an empty object if there
 * is none, or if its first digit contradicts the reply's code (such as 550).
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
 * Words in a rejection which show that its cause is not the mailbox, but the sender's reputation, a limit, or a
 * temporary problem.
 */
const notOfMailbox =
  /\b(spam\w*|block\w*|black ?list\w*|grey ?list\w*|gr[ae]y|listed|dns\w*|rbl|ptr|spf|dkim|dmarc|reverse|relay\w*|helo|ehlo|sender|authent\w*|tls|rate|too many|limit\w*|try again|later|tempor\w*|full|quota|banned|denied|prohibited|policy|reputation|https?)\b/i;

/**
 * Interprets the reply to RCPT: whether the mailbox exists. `undecided` if the sender, a limit or a temporary problem
 * may be the cause of a rejection.
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
