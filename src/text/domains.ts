import { domainToASCII, domainToUnicode } from 'node:url';

const label = String.raw`[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]*[\p{L}\p{M}\p{N}])?`;
const labelName = new RegExp(`^${label}$`, 'u');
const domainName = new RegExp(String.raw`^${label}(?:\.${label})+$`, 'u');
export const maxDomainLength = 253;

// eslint-disable-next-line no-control-regex
export const isAscii = (text: string): boolean => /^[\0-\x7f]*$/.test(text);

/**
 * Returns an e-mail address with its domain in ASCII (RFC 5891), such as `ida@xn--mller-kva.example` for
 * `ida@müller.example`. Addresses are compared in this form. Returns any other text unchanged.
 */
export function withAsciiDomain(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  if (at < 0 || domain.length > maxDomainLength || isAscii(domain) || !domainName.test(domain)) return address;
  const ascii = domainToASCII(domain);
  return ascii === '' ? address : `${address.slice(0, at)}@${ascii}`;
}

/** Returns a text in which each word that can be a label of a domain is in ASCII, such as `xn--mller-kva`. */
export const withAsciiLabels = (text: string): string =>
  text.replace(/[^\s@.]+/g, (word) => (labelName.test(word) && !isAscii(word) && domainToASCII(word)) || word);

export function withUnicodeDomain(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  return /^xn--|\.xn--/.test(domain) ? `${address.slice(0, at)}@${domainToUnicode(domain) || domain}` : address;
}

export const maxAddressLength = 2_048;

const address = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/?#:@\s]+?)\.?(?::\d{1,5})?(?:[/?#]\S*)?$/i;

/** Matches a host name with a dot. Its last part is not a number, so an IP address does not match. */
const asciiName = /^(?:[a-z\d-]{1,63}\.)+(?!\d+$)[a-z\d-]{2,63}$/;

/**
 * Returns the domain of a host name or web address, or undefined if there is none. The domain is in lower case and
 * Unicode, without scheme, `www.`, port and path.
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

const maxLength = 2_048;

/**
 * Returns the form in which URLs of profiles are compared, such as `linkedin.com/in/ada` for
 * `https://de.linkedin.com/in/Ada/?x=1`. Returns undefined if the text is not a profile: a host with a dot, and at
 * least two path segments.
 */
export function profileKey(url: string): string | undefined {
  if (url.length > maxLength) return undefined;
  const [host = '', ...path] = decode(formerProfileKey(url)).split('/');
  const segments = path.filter((segment) => segment !== '');
  const isProfile = hostname.test(host) && segments.length >= 2 && /[\p{L}\p{N}]/u.test(segments.at(-1)!);
  return isProfile ? [withoutLanguage(host), ...segments].join('/').normalize('NFC') : undefined;
}

/**
 * Returns the form in which earlier releases compared URLs of profiles. Stored suppressions and catalogs still contain
 * it. URLs with equal former forms also have equal forms by `profileKey`.
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

/** Removes slashes at the end of a text. The regular expression `/\/*$/` would take quadratic time. */
function withoutClosing(text: string): string {
  let end = text.length;
  while (text[end - 1] === '/') end -= 1;
  return text.slice(0, end);
}

const hostname = /^[^\s.]+(?:\.[^\s.]+)+$/;

/** Removes a language from the host: `de.linkedin.com` becomes `linkedin.com`. Keeps `vk.com` and `ab.co.uk`. */
const withoutLanguage = (host: string): string => host.replace(/^[a-z]{2}\.(?=[^.]{4,}\.)/, '');

function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    const decoded = decodeURIComponent(text).toLowerCase();
    return decoded.includes('\0') ? text : decoded;
  } catch {
    return text;
  }
}
