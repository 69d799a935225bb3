import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Ranges of addresses, as parsed from `TRUST_PROXY`. */
export type AddressRanges = readonly [base: ipaddr.IPv4 | ipaddr.IPv6, bits: number][];

/** Names that stand for ranges. */
const named: Record<string, string[]> = {
  loopback: ['127.0.0.0/8', '::1'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/** What an element of a list of ranges may be. */
export const rangeSyntax = `an IP address, a range such as 10.0.0.0/8 (not /0), or one of ${Object.keys(named).join(', ')}`;

/**
 * Parses a comma-separated list of addresses, ranges in CIDR notation and the names `loopback`, `linklocal`, `uniquelocal`.
 * @returns the ranges, and the positions (from 1) of the elements that are none of these
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

/** An address is a range of one. A range of /0 would let every caller choose the address that is recorded. */
function parseRange(text: string): AddressRanges[number] | undefined {
  const [, address, bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  if (address === undefined || !isIP(address)) return undefined;
  const base = ipaddr.parse(address);
  const most = base.kind() === 'ipv4' ? 32 : 128;
  const length = bits === undefined ? most : Number(bits);
  if (length < 1 || length > most) return undefined;
  // Addresses are compared as IPv4 where they map one.
  if (base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress())
    return length > 96 ? [base.toIPv4Address(), length - 96] : undefined;
  return [base, length];
}

/**
 * Normalises an IP address: IPv4-mapped IPv6 becomes IPv4, IPv6 is written as RFC 5952 says, without a zone. A port is
 * dropped, since some load balancers forward `address:port`.
 * @returns undefined for anything that is no IP address
 */
export function normaliseAddress(text: string): string | undefined {
  const address = (/^\[([^\]]*)\](?::\d{1,5})?$/.exec(text) ?? /^([\d.]+):\d{1,5}$/.exec(text))?.[1] ?? text;
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(address) ?? [];
  if (isIP(mapped ?? address) === 4) return mapped ?? address; // one spelling only, and by far the most frequent
  if (!isIP(address)) return undefined;
  const parsed = ipaddr.process(address.replace(/%.*/, ''));
  return parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString();
}

/**
 * The address of the caller: of the last machine in the chain of proxies that is not trusted. `X-Forwarded-For` is read from
 * the right, as long as the machine that added an element is a trusted proxy. An element that is no address ends the chain:
 * the proxy that added it is then the caller.
 * @param peer the address at the other end of the connection
 * @param forwarded the header `X-Forwarded-For`
 */
export function callerAddress(peer: string | undefined, forwarded: string | undefined, trusted: AddressRanges): string {
  let caller = normaliseAddress(peer ?? '') ?? unknownAddress;
  const chain = trusted.length > 0 && forwarded ? forwarded.split(',') : [];
  while (chain.length > 0 && isWithin(trusted, caller)) {
    const next = normaliseAddress(chain.pop()!.trim());
    if (next === undefined) break;
    caller = next;
  }
  return caller;
}

/** Stands for a peer whose connection is gone already. */
const unknownAddress = '0.0.0.0';

/** @param address as `normaliseAddress` writes it */
export function isWithin(ranges: AddressRanges, address: string): boolean {
  const parsed = ipaddr.parse(address);
  return ranges.some(([base, bits]) => base.kind() === parsed.kind() && parsed.match(base, bits));
}
