import { expect, test } from 'vitest';
import { parseAddress, SyntaxFault } from '../../src/verification/mail-hosts.ts';
import { isPublic } from '../../src/process/ip-addresses.ts';

test.each([
  ['ada@example.com', 'ada', 'example.com'],
  ['Ada.Lovelace+tag@Example.COM', 'Ada.Lovelace+tag', 'example.com'],
  ["o'neil!#$%&*/=?^_`{|}~-@sub.example.co.uk", "o'neil!#$%&*/=?^_`{|}~-", 'sub.example.co.uk'],
  ['"much.more unusual\\" @ \\\\"@example.com', '"much.more unusual\\" @ \\\\"', 'example.com'],
  [`${'a'.repeat(64)}@example.com`, 'a'.repeat(64), 'example.com'],
  [`a@${'b'.repeat(63)}.example`, 'a', `${'b'.repeat(63)}.example`],
  ['a@xn--bcher-kva.example', 'a', 'xn--bcher-kva.example'],
  ['a@bücher.example', 'a', 'xn--bcher-kva.example'],
  ['δοκιμή@παράδειγμα.δοκιμή', 'δοκιμή', 'xn--hxajbheg2az3al.xn--jxalpdlp'],
  ['用户@例子.广告', '用户', 'xn--fsqu00a.xn--4rr70v'],
  ['a@[192.0.2.1]', 'a', '[192.0.2.1]'],
  ['a@[IPv6:2001:db8::1]', 'a', '[ipv6:2001:db8::1]'],
])('%s is an e-mail address', (text, local, domain) => {
  expect(parseAddress(text)).toMatchObject({ local, domain });
});

const otherwise =
  'nobody postmaster @example.com a@ a@b a@localhost a@@example.com .a@example.com a.@example.com a..b@example.com ' +
  'a@.example.com a@example..com a@example.com. a@-example.com a@example-.com a@exam_ple.com <a@example.com> <> ' +
  'a(comment)@example.com "a@example.com "a"b@example.com a@[300.1.1.1] a@[IPv6:zz]';

test.each([
  ...otherwise.split(' '),
  '',
  'a b@example.com',
  'a@exa mple.com',
  'Ada <a@example.com>',
  'a@example.com, b@example.com',
  'a\0@example.com',
  'a\r\nRCPT TO:<b@example.com>@example.com',
  '"a\r\nRCPT TO:<b@example.com>"@example.com',
  'a@example.com\r\nDATA',
  `${'a'.repeat(65)}@example.com`,
  `a@${'b'.repeat(64)}.example`,
  `a@${'b.'.repeat(126)}example`,
  `a@${'ü'.repeat(60)}.example`,
  '\ud800@example.com',
  'a@\ud800.example',
])('%j is not an e-mail address', (text) => {
  expect(() => parseAddress(text)).toThrow(SyntaxFault);
});

test.each(['8.8.8.8', '1.1.1.1', '2001:4860:4860::8888', '2a00:1450:4001::1'])(
  '%s is a public IP address',
  (address) => {
    expect(isPublic(address)).toBe(true);
  },
);

const notPublic =
  '0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8 ' +
  '192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 ' +
  '255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:8.8.8.8 ::ffff:127.0.0.1 64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 2001::1 ' +
  '2001:db8::1 2001:10::1 2001:20::1 2002:7f00:1:: 3fff::1 5f00::1 4000::1 fc00::1 fd12:3456::1 fe80::1 fe80::1%lo ' +
  'fec0::1 ff02::1 127.1 2130706433 0x7f.1 localhost';

test.each([...notPublic.split(' '), ''])('%j is not a public IP address', (address) => {
  expect(isPublic(address)).toBe(false);
});
