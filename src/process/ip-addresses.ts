import { isIP, isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';

export type AddressRanges = readonly [base: ipaddr.IPv4 | ipaddr.IPv6, bits: number][];

const named: Record<string, string[]> = {
  loopback: ['127.0.0.0/8', '::1'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

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
 * Parses a CIDR range. A single address becomes a range with one address. Returns undefined for an invalid text and for
 * the range /0.
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
 * Converts an IP address to its standard spelling (RFC 5952), without port and zone. Converts IPv4 in IPv6 to IPv4.
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
 * Returns the address of a caller who may be behind proxies. It is the last address in `X-Forwarded-For` that does not
 * belong to a trusted proxy.
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

const unknownAddress = '0.0.0.0';

export function isWithin(ranges: AddressRanges, address: string): boolean {
  const parsed = ipaddr.parse(address);
  return ranges.some(([base, bits]) => base.kind() === parsed.kind() && parsed.match(base, bits));
}

/**
 * Returns the key under which requests from an address are counted: the IPv4 address, the /64 prefix of an IPv6
 * address, or `unknown`.
 * @param address undefined if the connection is already closed
 */
export function addressGroup(address = ''): string {
  // IPv4 can be written as IPv6 (`::ffff:192.0.2.1`). One subscriber has at least a /64 of IPv6 addresses.
  if (isIPv4(address)) return address;
  const plain = address.split('%', 1)[0]!; // fe80::1%eth0: the zone names a link of this machine
  if (!ipaddr.isValid(plain)) return 'unknown';
  const parsed = ipaddr.process(plain);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}

// The only IPv6 range that IANA allocates for global unicast.
const globalUnicast = ipaddr.parseCIDR('2000::/3');

/**
 * Returns true for an address on the public Internet. False for addresses that are private, local, multicast,
 * carrier-grade NAT or for documentation, and for IPv4 inside IPv6.
 */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || parsed.match(globalUnicast);
}

const ipv4Networks = [
  [ipaddr.IPv6.parseCIDR('::ffff:0:0/96'), 12],
  [ipaddr.IPv6.parseCIDR('64:ff9b::/96'), 12],
  [ipaddr.IPv6.parseCIDR('2002::/16'), 2],
] as const;

/**
 * Returns the IPv4 address inside an IPv4-mapped, a NAT64 (64:ff9b::/96) or a 6to4 (2002::/16) address. A connection to
 * such an address reaches the IPv4 address. Returns every other address unchanged.
 */
export function innerAddress(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  const [, first] = ipv4Networks.find(([network]) => parsed.match(network)) ?? [];
  return first === undefined
    ? address
    : parsed
        .toByteArray()
        .slice(first, first + 4)
        .join('.');
}
