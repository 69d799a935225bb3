import { expect, test } from 'vitest';
import { generatePeople } from '../../../src/commands/generate-people.ts';
import { countryCodes } from '../../../src/files/phones.ts';
import { formats } from '../../../src/schemas/formats.ts';

const codeOf = await countryCodes();

test.each([
  ['Germany', 'DE'],
  ['  gErMaNy ', 'DE'],
  ['Deutschland', 'DE'],
  ['Türkiye', 'TR'],
  ['TURKEY', 'TR'],
  ['日本', 'JP'],
  ['U.S.A.', 'US'],
  ['usa', 'US'],
  ['United States', 'US'],
  ['UK', 'GB'],
  ['gb', 'GB'],
  ['England', 'GB'],
  ['Scotland', 'GB'],
  ['Wales', 'GB'],
  ['Côte d’Ivoire', 'CI'],
  ['D', 'DE'],
  ['BRD', 'DE'],
  ['Syria', 'SY'],
  ['Trinidad & Tobago', 'TT'],
  ['Korea', 'KR'],
])('%s is %s', (name, code) => expect(codeOf(name)).toBe(code));

test.each(['', '   ', 'Atlantis', 'Congo', 'XK', 'Kosovo', 'EU', 'Sales', 'Afrika', 'AN'])('%j has no code', (name) =>
  expect(codeOf(name)).toBe(''),
);

test('every returned code is valid for a contact', () => {
  for (const { location_country } of generatePeople(500, 1)) {
    expect(codeOf(location_country)).not.toBe('');
    expect(formats.country(codeOf(location_country))).toBe(true);
  }
});
