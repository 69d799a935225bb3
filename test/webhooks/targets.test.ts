import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../src/process/config.ts';
import { faultOfUrl, mayConnectTo, targetRules } from '../../src/accounts/webhook-targets.ts';

const usual = targetRules(parseConfig({}));
const development = targetRules(parseConfig({ WEBHOOK_ALLOW_HTTP: 'on', WEBHOOK_ALLOW_PRIVATE: 'on' }));

describe('where a webhook may connect', () => {
  test.each(['8.8.8.8', '203.0.114.1', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2002:808:808::1'])(
    '%s is public',
    (address) => expect(mayConnectTo(address, usual)).toBe(true),
  );

  test.each([
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '192.168.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '192.0.2.1',
    '198.18.0.1',
    '240.0.0.1',
    '::1',
    '::',
    'fe80::1',
    'fd00::1',
    'ff02::1',
    '2001:db8::1',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '::127.0.0.1',
    '64:ff9b::169.254.169.254',
    '64:ff9b::a00:1',
    '64:ff9b:1::8.8.8.8',
    '2002:7f00:1::',
    '2002:a9fe:a9fe::1',
    '2001::1',
    'no address',
  ])('%s is not public', (address) => expect(mayConnectTo(address, usual)).toBe(false));

  test('WEBHOOK_DENY names further networks, which no spelling gets around', () => {
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
  test.each([
    'https://example.com',
    'https://example.com:443/a?b=c',
    'https://example.com:1024/',
    'https://example.com:65535/',
    'https://8.8.8.8/',
    'https://[2606:4700::1111]/',
    'https://bücher.example/',
  ])('%s is accepted', (url) => expect(faultOfUrl(url, usual)).toBeUndefined());

  test.each([
    'http://example.com:8080/',
    'ftp://example.com/',
    'javascript:alert(1)',
    'example.com',
    '',
    'https://',
    'https://example.com:80/',
    'https://example.com:22/',
    'https://example.com:1023/',
    'https://example.com:65536/',
    'https://user@example.com/',
    'https://user:secret@example.com/',
    'https://127.0.0.1/',
    'https://127.1/',
    'https://0x7f.0.0.1/',
    'https://2130706433/',
    'https://[::1]/',
    'https://[::ffff:10.0.0.1]/',
    'https://[64:ff9b::a9fe:a9fe]/',
    'https://169.254.169.254/latest',
  ])('%s is refused', (url) => expect(faultOfUrl(url, usual)).toMatch(/^must /));

  test('development allows http and private addresses, but no other port', () => {
    for (const url of ['http://127.0.0.1:3000/', 'http://localhost:8080/', 'https://10.0.0.1/'])
      expect(faultOfUrl(url, development), url).toBeUndefined();
    expect(faultOfUrl('http://127.0.0.1/', development)).toMatch(/port/);
  });
});
