import { parseEnvelope } from '@haraka/email-address';

/** An e-mail address, as a mail server is asked for it. */
export interface Address {
  /** As it was given: only its own mail server knows whether case matters. */
  local: string;
  /** In lower case, its labels in ASCII (RFC 5890); `[…]` around the number of a machine. */
  domain: string;
  /** Whether its local part needs a mail server that speaks SMTPUTF8 (RFC 6531). */
  isInternational: boolean;
}

/** A text is no e-mail address; the message says why. */
export class SyntaxFault extends Error {}

/**
 * Reads an address by the grammar of the SMTP envelope: RFC 5321, with RFC 6531 for other scripts. Its domain has to be
 * fully qualified (RFC 5321, 2.3.5) and no longer than a name may be (RFC 1035).
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
  // The envelope's grammar also has a form in angle brackets, which is none of a bare address.
  if (text.startsWith('<')) throw new SyntaxFault('it stands in angle brackets');
  if (!text.isWellFormed()) throw new SyntaxFault('it is no text in Unicode');
  try {
    return parseEnvelope(text);
  } catch (error) {
    throw new SyntaxFault(error instanceof Error ? error.message : 'it cannot be read', { cause: error });
  }
}
