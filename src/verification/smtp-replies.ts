/** A reply of a mail server (RFC 5321, 4.2). */
export interface Reply {
  code: number;
  /** Its enhanced status code (RFC 3463), if it gives one. */
  enhanced?: string;
  /** What each of its lines says after the code. */
  lines: string[];
}

/** A mail server did not do what it has to; `reason` says what, in one word. */
export class SmtpFault extends Error {
  readonly reason: string;

  constructor(reason: string) {
    super(`The mail server failed: ${reason}`);
    this.reason = reason;
  }
}

/** More than any reply needs: RFC 5321 asks for 512 characters, of which some servers make more. */
export const replyLimits = { lineLength: 2_048, lines: 64 };

/** Puts a reply together, line by line. */
export class ReplyReader {
  #code: number | undefined;
  #lines: string[] = [];

  /**
   * Takes the next line.
   * @returns the reply, when this was its last line
   * @throws SmtpFault when this is no line of a reply
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

function enhancedCode(code: number, text: string): { enhanced?: string } {
  const enhanced = /^([245]\.\d{1,3}\.\d{1,3})\b/.exec(text)?.[1];
  return enhanced?.startsWith(`${code}`[0]!) ? { enhanced } : {};
}

/** Says that there is no such mailbox, or none any more: RFC 3463; 5.4.1 is how Exchange Online refuses unknown recipients. */
const noMailbox = new Set(['5.1.1', '5.1.2', '5.1.3', '5.1.6', '5.1.10', '5.2.1', '5.4.1']);
/** Where the code does not say: these words tell of who asks, or of the hour, not of who is asked for. */
const notOfMailbox =
  /\b(spam\w*|block\w*|black ?list\w*|grey ?list\w*|gr[ae]y|listed|dns\w*|rbl|ptr|spf|dkim|dmarc|reverse|relay\w*|helo|ehlo|sender|authent\w*|tls|rate|too many|limit\w*|try again|later|tempor\w*|full|quota|banned|denied|prohibited|policy|reputation|https?)\b/i;

/**
 * What a reply to RCPT says of the mailbox. Only what speaks of the mailbox itself decides; what may be about us, about the
 * hour or about a limit does not.
 */
export function judge({ code, enhanced, lines }: Reply): 'taken' | 'refused' | 'undecided' {
  if (code === 250 || code === 251) return 'taken';
  if (code < 500) return 'undecided';
  if (enhanced !== undefined) return noMailbox.has(enhanced) ? 'refused' : 'undecided';
  const isOfMailbox = code === 550 || code === 551 || code === 553;
  // An address that is repeated may hold any word.
  const words = lines.join(' ').replaceAll(/\S*@\S*/g, '');
  return isOfMailbox && !notOfMailbox.test(words) ? 'refused' : 'undecided';
}
