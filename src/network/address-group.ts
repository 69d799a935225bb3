import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/** The groups of recent IPv6 addresses, because parsing one takes longer than a look-up. */
const recent = new LRUCache<string, string>({ max: 1_000 });

/**
 * Returns the key under which requests from an address are counted: an IPv4 address, the /64 prefix of an IPv6 address,
 * or `unknown` for any other text.
 * @param address undefined if the connection is already closed
 */
export function addressGroup(address: string | undefined): string {
  if (address === undefined) return 'unknown';
  // IPv4 can be written as IPv6 (`::ffff:192.0.2.1`). One subscriber has at least a /64 of IPv6 addresses.
  if (isIPv4(address)) return address;
  const known = recent.get(address);
  if (known !== undefined) return known;
  const group = groupOf(address.split('%', 1)[0]!); // fe80::1%eth0: the zone names a link of this machine
  recent.set(address, group);
  return group;
}

function groupOf(address: string): string {
  if (!ipaddr.isValid(address)) return 'unknown';
  const parsed = ipaddr.process(address); // turns IPv4-mapped addresses into IPv4
  if (parsed.kind() === 'ipv4') return parsed.toString();
  const network = (parsed as ipaddr.IPv6).parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
