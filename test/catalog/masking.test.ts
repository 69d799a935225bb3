import { expect, test } from 'vitest';
import { mask } from '../../src/catalog/prospects.ts';
import { person } from './people.ts';

const masked = (text: string) => {
  const { work_email, emails } = mask(person({ work_email: text, emails: [text] }));
  expect(emails).toEqual([work_email]);
  return work_email;
};

test.each([
  ['ada@engines.example', 'a•••@engines.example'],
  ['A.B+c@Engines.Example', 'A•••@Engines.Example'],
  ['', ''],
])('of the address %j a customer who has not paid sees %j', (email, shown) => expect(masked(email)).toBe(shown));

test.each([
  'call me @ +44 20 7946 0000',
  'ada@engines.example, +44 20 7946 0000',
  'ada@+442079460000 ',
  'ada@ada lovelace',
  `${'a'.repeat(250)}@engines.example`,
])('a text that is no address is hidden as a whole: %j', (text) => expect(masked(text)).toBe('•••'));
