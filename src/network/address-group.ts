import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/**
 * Cache of address groups by address. A caller sends many requests, and parsing an IPv6 address takes longer than a
 * look-up here.
 */
const recent = new LRUCache<string, string>({ max: 1_000 });

/**
 * Returns the name under which the requests of an IP address are counted. For IPv4 it is the address itself, also if it
 * is written as IPv6 (`::ffff:192.0.2.1`). For IPv6 it is the /64 prefix, because one subscriber has at least that many
 * addresses. For any other text it is `unknown`.
 * @param address undefined if the connection is already closed
 */
export function addressGroup(address: string | undefined): string {
  if (address === undefined) return 'unknown';
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
