import { expect, test } from 'vitest';
import { profileKey } from '../../src/text/domains.ts';

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
