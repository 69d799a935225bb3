import ipaddr from 'ipaddr.js';

// What is handed out for use in the whole net; the rest of IPv6 is not, whatever else is known of it.
const globalUnicast = ipaddr.parseCIDR('2000::/3');

/**
 * Whether an IP address is a machine's in the public net: none that is private, this machine's, of the local link, of many,
 * shared by a carrier, for documentation, or that stands for another (IPv4 in IPv6). By the registries of IANA.
 */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || parsed.match(globalUnicast);
}
