import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { faultOfUrl, mayConnectTo, targetRules } from '../../src/accounts/webhook-targets.ts';

const usual = targetRules(parseConfig({}));
const development = targetRules(parseConfig({ WEBHOOK_ALLOW_HTTP: 'on', WEBHOOK_ALLOW_PRIVATE: 'on' }));

// Which addresses are public is tested in test/verification/address.test.ts; here, that IPv4 is found within IPv6.
describe('a webhook', () => {
  const [within, publicWithin] = [
    '127.0.0.1 ::1 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::127.0.0.1 64:ff9b::169.254.169.254 64:ff9b::a00:1 64:ff9b:1::8.8.8.8',
    '8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1',
  ].map((list) => list.split(' ')) as [string[], string[]];

  test.each(publicWithin)('may connect to %s, which is public', (address) =>
    expect(mayConnectTo(address, usual)).toBe(true),
  );

  test.each([...within, '2002:7f00:1::', '2002:a9fe:a9fe::1', '2001::1', 'no address'])(
    'may not connect to %s, which is not public',
    (address) => expect(mayConnectTo(address, usual)).toBe(false),
  );

  test('may not connect to the networks of WEBHOOK_DENY, however an address is spelled', () => {
    const rules = targetRules(parseConfig({ WEBHOOK_DENY: '8.8.8.0/24, 2606:4700::/32' }));
    for (const address of ['8.8.8.8', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2002:808:808::', '2606:4700::1'])
      expect(mayConnectTo(address, rules), address).toBe(false);
    expect(mayConnectTo('8.8.4.4', rules)).toBe(true);
    const open = { ...rules, allowPrivate: true };
    expect(mayConnectTo('8.8.8.8', open)).toBe(false);
    expect(mayConnectTo('10.0.0.1', open)).toBe(true);
  });
});

describe('the URL of an endpoint', () => {
  const accepted =
    'https://example.com https://example.com:443/a?b=c https://example.com:1024/ https://example.com:65535/ ' +
    'https://8.8.8.8/ https://[2606:4700::1111]/ https://bücher.example/';
  test.each(accepted.split(' '))('%s is accepted', (url) => expect(faultOfUrl(url, usual)).toBeUndefined());

  const refused =
    'http://example.com:8080/ ftp://example.com/ javascript:alert(1) example.com https:// https://example.com:80/ ' +
    'https://example.com:22/ https://example.com:1023/ https://example.com:65536/ https://user@example.com/ ' +
    'https://user:secret@example.com/ https://127.0.0.1/ https://127.1/ https://0x7f.0.0.1/ https://2130706433/ ' +
    'https://[::1]/ https://[::ffff:10.0.0.1]/ https://[64:ff9b::a9fe:a9fe]/ https://169.254.169.254/latest';
  test.each([...refused.split(' '), ''])('%j is refused', (url) => expect(faultOfUrl(url, usual)).toMatch(/^must /));

  test('development allows http and private addresses, but no other port', () => {
    for (const url of ['http://127.0.0.1:3000/', 'http://localhost:8080/', 'https://10.0.0.1/'])
      expect(faultOfUrl(url, development), url).toBeUndefined();
    expect(faultOfUrl('http://127.0.0.1/', development)).toMatch(/port/);
  });
});
