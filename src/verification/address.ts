import { parseEnvelope } from '@haraka/email-address';

export interface Address {
  /** Unchanged, because only the mail server knows whether its case matters. */
  local: string;
  /** In lower case and ASCII (RFC 5890), or an IP address in `[…]`. */
  domain: string;
  /** `local` has non-ASCII characters: the mail server must support SMTPUTF8 (RFC 6531). */
  isInternational: boolean;
}

/** The message says why a text is no e-mail address. */
export class SyntaxFault extends Error {}

/**
 * Parses by the grammar of SMTP (RFC 5321, with RFC 6531 for non-ASCII characters). The domain must be fully qualified
 * and within the limits of DNS names (RFC 1035).
 * @throws SyntaxFault
 */
export function parseAddress(text: string): Address {
  const { user, host } = parse(text);
  if (host === '') throw new SyntaxFault('it has no domain');
  const isLiteral = host.startsWith('[');
  if (!isLiteral && !host.includes('.')) throw new SyntaxFault('its domain is not fully qualified');
  if (!isLiteral && host.split('.').some((label) => label.length > 63))
    throw new SyntaxFault('a label of its domain is too long');
  if (host.length > 253) throw new SyntaxFault('its domain is too long');
  return { local: user, domain: host, isInternational: /[^\0-\x7f]/.test(user) };
}

function parse(text: string): { user: string; host: string } {
  // The envelope's grammar also allows angle brackets around an address. They are not part of an address.
  if (text.startsWith('<')) throw new SyntaxFault('it has angle brackets around it');
  if (!text.isWellFormed()) throw new SyntaxFault('it is not valid Unicode');
  try {
    return parseEnvelope(text);
  } catch (error) {
    throw new SyntaxFault(error instanceof Error ? error.message : 'it cannot be parsed', { cause: error });
  }
}
