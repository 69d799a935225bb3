import { expect, test } from 'vitest';
import { domainOf, profileKey } from '../../src/text/domains.ts';

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

test.each([
  [
    'linkedin.com/in/jané',
    'https://www.linkedin.com/in/jané',
    'http://linkedin.com/in/JANÉ//',
    ' linkedin.com/in/Jané/?from=x#top',
    'https://de.linkedin.com/in/jan%C3%A9',
    'https://www.fr.linkedin.com//in/jan%c3%a9/',
    'linkedin.com/in/jane\u0301',
  ],
  ['linkedin.com/in/jane/posts', 'https://uk.linkedin.com/in/Jane/posts/'],
  ['vk.com/id/7', 'https://vk.com/id/7'],
  ['ab.co.uk/in/jane', 'https://www.ab.co.uk/in/jane'],
  ['a.example/in/100%', 'a.example/in/100%'],
  ['a.example/in/%00x', 'a.example/in/%00X'],
])('%s is the key of the same profile, however it is written', (key, ...written) => {
  expect(written.map(profileKey)).toEqual(written.map(() => key));
});

const nobodys =
  'none n/a - https://www.linkedin.com https://www.linkedin.com/in/ https://www.linkedin.com/in//?trk=x linkedin.com/in/- ' +
  'linkedin.com/in/%20 localhost/in/jane https:///in/jane .com/in/jane';

test.each([...nobodys.split(' '), '', 'jane doe.com/in/x', `linkedin.com/in/${'x'.repeat(2_048)}`])(
  '%j is not a profile, and so identifies nobody',
  (text) => {
    expect(profileKey(text)).toBeUndefined();
  },
);
