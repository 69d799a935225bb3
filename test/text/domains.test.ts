import { expect, test } from 'vitest';
import { domainOf } from '../../src/text/domains.ts';

test.each([
  ['Acme.COM', 'acme.com'],
  ['https://www.Müller.de/x', 'müller.de'],
  ['XN--MLLER-KVA.de', 'müller.de'],
  ['http://shop.acme.co.uk:8080/a?b#c', 'shop.acme.co.uk'],
  ['www.acme.com.', 'acme.com'],
  ['www.de', 'www.de'],
  ['acme.com?utm=1', 'acme.com'],
  ['straße.de', 'straße.de'],
  ['ＡＣＭＥ.com', 'acme.com'],
  // A heart: IDNA 2008 has no such letter.
  ['https://xn--i-7iq.ws', 'xn--i-7iq.ws'],
])('the domain of %s is %s, and that of the result is the same', (text, domain) => {
  expect(domainOf(text)).toBe(domain);
  expect(domainOf(domain)).toBe(domain);
});

const without =
  'localhost http://localhost:3000/ a..b .com -acme.com acme-.com 192.168.0.1 [::1] ada@acme.com mailto:ada@acme.com ' +
  'https://ada:secret@acme.com foo_bar.com acme.c acme.com:port %61cme.com www.';

test.each([...without.split(' '), '', 'acme . com', ' acme.com', `${'a'.repeat(64)}.com`, `${'a.'.repeat(126)}com`])(
  '%j has no domain',
  (text) => {
    expect(domainOf(text)).toBeUndefined();
  },
);
