import ipaddr from 'ipaddr.js';

// The only IPv6 range that IANA allocates for global unicast.
const globalUnicast = ipaddr.parseCIDR('2000::/3');

/** False for private, local, multicast, carrier-grade NAT and documentation addresses, and for IPv4 inside IPv6. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || parsed.match(globalUnicast);
}

/** Networks of IPv6 whose addresses hold an IPv4 address, and the first of its four bytes. */
const ipv4Networks = [
  [ipaddr.IPv6.parseCIDR('::ffff:0:0/96'), 12],
  [ipaddr.IPv6.parseCIDR('64:ff9b::/96'), 12],
  [ipaddr.IPv6.parseCIDR('2002::/16'), 2],
] as const;

/**
 * Returns the IPv4 address that a connection to an IPv6 address ends at: that of an IPv4-mapped, a NAT64 (64:ff9b::/96)
 * or a 6to4 (2002::/16) address. Returns every other address unchanged.
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
