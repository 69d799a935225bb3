import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

export type AddressRanges = readonly [base: ipaddr.IPv4 | ipaddr.IPv6, bits: number][];

/** Names that a configuration may use, and what each stands for. */
const named: Record<string, string[]> = {
  loopback: ['127.0.0.0/8', '::1'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/** For error messages: what each element of a list must be. */
export const rangeSyntax = `an IP address, a range such as 10.0.0.0/8 (not /0), or one of ${Object.keys(named).join(', ')}`;

/**
 * Parses a comma-separated list of IP addresses, CIDR ranges and names.
 * @returns the valid ranges, and the positions (from 1) of the invalid elements
 */
export function parseRanges(list: string): { ranges: AddressRanges; faults: number[] } {
  const parsed = list.split(',').map((element) => {
    const text = element.trim();
    return Object.hasOwn(named, text) ? named[text]!.map(parseRange) : [parseRange(text)];
  });
  return {
    ranges: parsed.flat().filter((range) => range !== undefined),
    faults: parsed.flatMap((ranges, i) => (ranges.includes(undefined) ? [i + 1] : [])),
  };
}

/**
 * Parses an address, as a range of one, or a CIDR range. Returns undefined if the text is invalid, or if the range is
 * /0.
 */
function parseRange(text: string): AddressRanges[number] | undefined {
  const [, address, bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  if (address === undefined || !isIP(address)) return undefined;
  const base = ipaddr.parse(address);
  const max = base.kind() === 'ipv4' ? 32 : 128;
  const length = bits === undefined ? max : Number(bits);
  // A trusted range /0 would let every caller forge its address.
  if (length < 1 || length > max) return undefined;
  // IPv4-mapped IPv6 addresses are compared as IPv4.
  if (base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress())
    return length > 96 ? [base.toIPv4Address(), length - 96] : undefined;
  return [base, length];
}

/**
 * Converts an IP address to its standard spelling (RFC 5952), without port and zone. An IPv4 address that is written as
 * IPv6 becomes IPv4.
 * @returns undefined if the text is not an IP address
 */
export function normaliseAddress(text: string): string | undefined {
  const address = (/^\[([^\]]*)\](?::\d{1,5})?$/.exec(text) ?? /^([\d.]+):\d{1,5}$/.exec(text))?.[1] ?? text;
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(address) ?? [];
  if (isIP(mapped ?? address) === 4) return mapped ?? address; // IPv4 has one spelling, and is by far the most frequent
  if (!isIP(address)) return undefined;
  const parsed = ipaddr.process(address.replace(/%.*/, ''));
  return parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString();
}

/**
 * Returns the address of a caller who may be behind proxies: from right to left, the first in `X-Forwarded-For` that
 * does not belong to a trusted proxy.
 * @param peer the address at the other end of the connection
 * @param forwarded the value of `X-Forwarded-For`
 * @param trusted the proxies
 */
export function callerAddress(peer: string | undefined, forwarded: string | undefined, trusted: AddressRanges): string {
  let caller = normaliseAddress(peer ?? '') ?? unknownAddress;
  const chain = trusted.length > 0 && forwarded ? forwarded.split(',') : [];
  while (chain.length > 0 && isWithin(trusted, caller)) {
    const next = normaliseAddress(chain.pop()!.trim());
    // An element that is not an IP address ends the search: the result is the proxy that added it.
    if (next === undefined) break;
    caller = next;
  }
  return caller;
}

/** For a caller whose connection is already closed. */
const unknownAddress = '0.0.0.0';

/** @param address in the form that `normaliseAddress` returns */
export function isWithin(ranges: AddressRanges, address: string): boolean {
  const parsed = ipaddr.parse(address);
  return ranges.some(([base, bits]) => base.kind() === parsed.kind() && parsed.match(base, bits));
}
