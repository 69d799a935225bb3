import { domainToASCII, domainToUnicode } from 'node:url';

/** Letters, marks and digits of any script, in labels: what can be an internationalised domain name. */
const label = String.raw`[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]*[\p{L}\p{M}\p{N}])?`;
export const domainName = new RegExp(String.raw`^${label}(?:\.${label})+$`, 'u');
export const maxDomainLength = 253;

// eslint-disable-next-line no-control-regex
const isAscii = (text: string): boolean => /^[\0-\x7f]*$/.test(text);

/**
 * Returns an e-mail address with its domain in ASCII (RFC 5891), in which such addresses are compared and looked up:
 * `ida@xn--mller-kva.example` for `ida@müller.example`. Any other text is returned as it is.
 */
export function withAsciiDomain(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  if (at < 0 || domain.length > maxDomainLength || isAscii(domain) || !domainName.test(domain)) return address;
  const ascii = domainToASCII(domain);
  return ascii === '' ? address : `${address.slice(0, at)}@${ascii}`;
}

/** Returns an e-mail address whose domain is in ASCII with its domain as people write it. */
export function withUnicodeDomain(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  return /^xn--|\.xn--/.test(domain) ? `${address.slice(0, at)}@${domainToUnicode(domain) || domain}` : address;
}
