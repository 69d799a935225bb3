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
