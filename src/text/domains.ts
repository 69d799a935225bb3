import { domainToASCII, domainToUnicode } from 'node:url';

/** Letters, marks and digits of any script, in labels: what can be an internationalised domain name. */
const label = String.raw`[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]*[\p{L}\p{M}\p{N}])?`;
const domainName = new RegExp(String.raw`^${label}(?:\.${label})+$`, 'u');
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

/** Longest web address that is read (UTF-16 units). */
export const maxAddressLength = 2_048;

const address = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/?#:@\s]+?)\.?(?::\d{1,5})?(?:[/?#]\S*)?$/i;

/** At least two labels. The last one is not a number, so that no IP address is a domain. */
const asciiName = /^(?:[a-z\d-]{1,63}\.)+(?!\d+$)[a-z\d-]{2,63}$/;

/**
 * Returns the domain in a host name or web address: in lower case and in Unicode, without scheme, `www.`, port and path.
 * Returns undefined if there is none.
 */
export function domainOf(text: string): string | undefined {
  const host = text.length > maxAddressLength ? undefined : address.exec(text)?.[1];
  if (host === undefined || !domainName.test(host)) return undefined;
  const ascii = domainToASCII(host).replace(/^www\.(?=[^.]+\.)/, '');
  if (ascii.length > maxDomainLength || !asciiName.test(ascii)) return undefined;
  const unicode = domainToUnicode(ascii);
  // Some old names, such as those with a heart, can be written in ASCII only.
  return domainName.test(unicode) && domainToASCII(unicode) === ascii ? unicode : ascii;
}

/** Longest URL that is read (UTF-16 units). A longer text is not a profile. */
const maxLength = 2_048;

/**
 * Returns the form in which URLs of profiles are compared, or undefined if the text is not a profile, and so identifies
 * nobody. A profile is a host with a dot and at least two path segments, the last one with a letter or digit. The form is
 * percent-decoded and in lower case, without scheme, `www.` or a language host (`de.`), query, fragment and closing `/`.
 */
export function profileKey(url: string): string | undefined {
  if (url.length > maxLength) return undefined;
  const [host = '', ...path] = decode(formerProfileKey(url)).split('/');
  const segments = path.filter((segment) => segment !== '');
  const isProfile = hostname.test(host) && segments.length >= 2 && /[\p{L}\p{N}]/u.test(segments.at(-1)!);
  return isProfile ? [withoutLanguage(host), ...segments].join('/').normalize('NFC') : undefined;
}

/**
 * Returns the form in which earlier releases compared URLs of profiles. Digests of suppressions and keys of catalogs that
 * they stored contain it. Equal former forms have equal forms by `profileKey`.
 * @param url at most `maxLength` long
 */
export const formerProfileKey = (url: string): string =>
  withoutClosing(
    url
      .trim()
      .toLowerCase()
      .replace(/^[a-z][a-z0-9+.-]*:\/\//, '')
      .replace(/^www\./, '')
      .split(/[?#]/, 1)[0]!,
  );

/** `/\/*$/` would take quadratic time. */
function withoutClosing(text: string): string {
  let end = text.length;
  while (text[end - 1] === '/') end -= 1;
  return text.slice(0, end);
}

const hostname = /^[^\s.]+(?:\.[^\s.]+)+$/;

/** `de.linkedin.com` is `linkedin.com`; but `vk.com` and `ab.co.uk` have no language. */
const withoutLanguage = (host: string): string => host.replace(/^[a-z]{2}\.(?=[^.]{4,}\.)/, '');

/** Leaves a text as it is if it is not encoded properly, or hides a NUL, which PostgreSQL does not store. */
function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    const decoded = decodeURIComponent(text).toLowerCase();
    return decoded.includes('\0') ? text : decoded;
  } catch {
    return text;
  }
}
