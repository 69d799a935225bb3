import { domainToASCII, domainToUnicode } from 'node:url';
import { domainName, maxDomainLength } from './email-domains.ts';

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
