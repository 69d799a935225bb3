import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/** Those of recent addresses: a caller sends many requests, and to take an IPv6 address apart costs more than to count one. */
const recent = new LRUCache<string, string>({ max: 1_000 });

/**
 * The name under which a network address is counted: an IPv4 address itself, also when written as IPv6 (`::ffff:192.0.2.1`);
 * of an IPv6 address its /64, since one subscriber has at least that many addresses. What is no address has one name.
 * @param address undefined of a connection that is closed by now
 */
export function addressGroup(address: string | undefined): string {
  if (address === undefined) return 'unknown';
  if (isIPv4(address)) return address;
  const known = recent.get(address);
  if (known !== undefined) return known;
  const group = groupOf(address.split('%', 1)[0]!); // fe80::1%eth0: the zone is the machine's own name for a link
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
