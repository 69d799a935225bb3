import { expect, test } from 'vitest';
import { callerAddress, normaliseAddress, parseRanges } from '../../src/process/ip-addresses.ts';

const noAddresses = [
  ['', ' ', 'unknown', '_hidden', '<script>', 'example.com', 'null', '192.0.2', '192.0.2.1.1', '256.0.0.1'],
  ['0x7f.0.0.1', '010.0.0.1', '3221225985', '192.0.2.1/24', '192.0.2.1:', '192.0.2.1:x', '192.0.2.1 ', '[]:1'],
  ['[<script>]:1', '2001:db8::1::', '2001:db8::g', 'fe80::1%<script>', '192.0.2.1\0', '1'.repeat(100_000)],
].flat();

test.each(noAddresses)('%j is not an IP address', (text) => {
  expect(normaliseAddress(text)).toBeUndefined();
});

const { ranges } = parseRanges('loopback, 10.0.0.0/8,::ffff:172.16.0.0/108,fd00::/8, 2001:db8::5');

test.each([
  ['a peer that is not a trusted proxy', '192.0.2.1', '6.6.6.6', '192.0.2.1'],
  ['a proxy that forwards nothing', '127.0.0.1', undefined, '127.0.0.1'],
  ['a proxy that forwards an empty header', '127.0.0.1', '', '127.0.0.1'],
  ['one proxy', '127.0.0.1', '192.0.2.1', '192.0.2.1'],
  ['a proxy that listens on IPv6', '::ffff:127.0.0.1', '192.0.2.1', '192.0.2.1'],
  ['a proxy with an IPv6 address', '2001:db8::5', '192.0.2.1', '192.0.2.1'],
  ['two proxies', '127.0.0.1', '192.0.2.1, 10.0.0.2', '192.0.2.1'],
  ['two proxies, the second written as IPv6', '127.0.0.1', '192.0.2.1, ::ffff:172.16.0.2', '192.0.2.1'],
  ['a caller who wrote a header of its own', '127.0.0.1', '6.6.6.6, 192.0.2.1', '192.0.2.1'],
  ['a caller within the ranges of the proxies', '127.0.0.1', '10.0.0.7', '10.0.0.7'],
  ['a caller with a port', '127.0.0.1', '192.0.2.1:5555', '192.0.2.1'],
  ['a proxy that forwards junk', '127.0.0.1', '<script>', '127.0.0.1'],
  ['a proxy that forwards junk after an address chosen by the caller', '127.0.0.1', '6.6.6.6, unknown', '127.0.0.1'],
  ['a second proxy that forwards junk', '127.0.0.1', '6.6.6.6, unknown, 10.0.0.2', '10.0.0.2'],
  ['a chain that ends in a comma', '127.0.0.1', '6.6.6.6,', '127.0.0.1'],
  ['a peer whose connection is closed', undefined, '6.6.6.6', '0.0.0.0'],
])('the caller behind %s', (_what, peer, forwarded, address) => {
  expect(callerAddress(peer, forwarded, ranges)).toBe(address);
});

test('without trusted proxies the forwarded header is ignored', () => {
  expect(callerAddress('127.0.0.1', '6.6.6.6', [])).toBe('127.0.0.1');
});
