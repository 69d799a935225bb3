import { expect, test } from 'vitest';
import { addressGroup } from '../../src/process/ip-addresses.ts';

test.each([
  ['an IPv4 address', '192.0.2.1', '192.0.2.1'],
  ['an IPv4 address written as IPv6', '::ffff:192.0.2.1', '192.0.2.1'],
  ['an IPv4-mapped address in hexadecimal', '::ffff:c000:201', '192.0.2.1'],
  ['an IPv4-mapped address in full', '0:0:0:0:0:FFFF:192.0.2.1', '192.0.2.1'],
  ['an IPv6 address', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['its neighbour', '2001:0DB8:0001:0002::7', '2001:db8:1:2::/64'],
  ['an IPv6 address of another network', '2001:db8:1:3::7', '2001:db8:1:3::/64'],
  ['the loopback', '::1', '0:0:0:0::/64'],
  ['a link-local address with a zone', 'fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['text that is not an address', '<script>', 'unknown'],
  ['nothing', '', 'unknown'],
  ['a closed connection', undefined, 'unknown'],
])('%s counts as its group', (_, address, group) => {
  expect(addressGroup(address)).toBe(group);
});
