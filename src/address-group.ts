import ipaddr from 'ipaddr.js';

/**
 * The name under which a network address is counted: an IPv4 address itself, also when written as IPv6 (`::ffff:192.0.2.1`);
 * of an IPv6 address its /64, since one subscriber has at least that many addresses. What is no address has one name.
 */
export function addressGroup(address: string): string {
  const [withoutZone] = address.split('%', 1); // fe80::1%eth0: the zone is the machine's own name for a link
  if (!ipaddr.isValid(withoutZone!)) return 'unknown';
  const parsed = ipaddr.process(withoutZone!); // turns IPv4-mapped addresses into IPv4
  if (parsed.kind() === 'ipv4') return parsed.toString();
  const network = (parsed as ipaddr.IPv6).parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
