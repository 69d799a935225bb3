import { expect, test } from 'vitest';
import { contentsOf, fieldOfContents } from '../../src/files/guess-columns.ts';
import { headerKey } from '../../src/files/header.ts';
import { misreadWord } from '../../src/files/layout.ts';
import { asSentBack, integer, linesIn } from '../../src/pages/base/requests.ts';
import { mailLink, phoneLink, webLink } from '../../src/pages/base/words.ts';
import { itemOfCells } from '../../src/files/read-records.ts';
import { csvFormat } from '../../src/files/record-formats.ts';
import * as phoneNumbers from '../../src/files/phones.ts';
import * as values from '../../src/files/values.ts';
import * as readValue from '../../src/files/read-value.ts';
import * as cellValues from '../../src/files/xlsx-parts.ts';
import * as matchKeys from '../../src/catalog/document.ts';
import { importColumn } from '../../src/files/encodings.ts';
import { formats } from '../../src/schemas/formats.ts';
import { externalName, words, emailKey, isPlaceholder, trimText } from '../../src/text/fold.ts';
import { canonicalId } from '../../src/text/ids.ts';
import * as profiles from '../../src/text/domains.ts';
import { parseAddress } from '../../src/verification/mail-hosts.ts';

type Read = (text: string) => unknown;

const modules: Record<string, unknown>[] = [phoneNumbers, values, readValue, cellValues, matchKeys, profiles];
/** All functions that modules with readers of values export. */
const exported = modules.flatMap((members) =>
  Object.entries(members).flatMap(([name, member]): [string, Read][] =>
    typeof member === 'function' && !/^[A-Z]/.test(name) ? [[name, member as Read]] : [],
  ),
);

const texts: Record<string, Read> = {
  ...formats,
  words,
  externalName,
  canonicalId,
  emailKey,
  isPlaceholder,
  trimText,
};

async function others(): Promise<[string, Read][]> {
  const readers = { codeOf: await phoneNumbers.countryCodes(), phones: await phoneNumbers.phoneReader() };
  const { codeOf, phones } = readers;
  const cell = (text: string) => ({ text, isQuoted: false });
  const names =
    'first_name full_name work_email other_emails profnet_url job_title birth_year location_country phone_numbers ' +
    'mobile_phone external_id company.name company.domain custom_fields';
  const columns = [
    ...names.split(' ').map((name) => [name, importColumn('contacts', name)!] as const),
    ...(['text', 'number', 'boolean', 'date'] as const).map(
      (customType) => [customType, { ...importColumn('contacts', 'custom_fields.v')!, customType }] as const,
    ),
  ];
  return [
    ['codeOf', codeOf],
    ['phones', (text) => phones.read(text, 'DE')],
    ['phone text', (text) => phones.readText(text, 'DE')],
    ['phone written', (number) => phones.write({ country_code: '+49', number })],
    ['parseAddress', parseAddress],
    ['headerKey', headerKey],
    ['misreadWord', (text) => misreadWord([text])],
    ['contents', (text) => fieldOfContents('contacts', text, contentsOf([text, text, text]), codeOf)],
    ['linesIn', (text) => linesIn({ text }, 'text')],
    ['asSentBack', asSentBack],
    ['integer', (text) => integer({ text }, 'text')],
    ['phoneLink', phoneLink],
    ['webLink', webLink],
    ['mailLink', mailLink],
    ['CSV', (text) => csvFormat(',', 100).find(text, 0, true)],
    ...columns.map(([name, column]): [string, Read] => [
      `a cell of ${name}`,
      (text) => values.readValues(readers, [column], itemOfCells([column], [cell(text)]).item, [text]),
    ]),
  ];
}

const characters = Array.from(' \t\n\u00a0\u200b\0aAzéß1059.,:;-_+()[]{}<>/\\\'"@#?=&%|*~`$日\u0301');

/** The processor time of a call (ms). What the reader says is not looked at. */
function timeOf(read: Read, text: string): number {
  const before = process.threadCpuUsage();
  try {
    const result = read(text);
    if (result instanceof Promise) result.catch(() => undefined);
  } catch {
    // The text is refused.
  }
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/**
 * A small size first, so that a reader that is quadratic is found before it takes minutes. Of each size, a time up to
 * `noise` (ms) says nothing.
 */
const sizes = [
  { size: 2 ** 14, noise: 100 },
  { size: 2 ** 18, noise: 300 },
];

/** Returns what was slow, or undefined if the time grows as the text does. */
function growth(read: Read, character: string): string | undefined {
  let before = 0;
  for (const [i, { size, noise }] of sizes.entries()) {
    const text = `${character.repeat(size / character.length)}x`;
    const once = timeOf(read, text);
    const most = Math.max(noise, before * (size / (sizes[i - 1]?.size ?? size)) * 3);
    if (once > most && !Array.from({ length: 4 }).some(() => timeOf(read, text) <= most))
      return `${JSON.stringify(character)}: ${Math.round(once)} ms for ${size} characters`;
    before = Math.max(1, once);
  }
  return undefined;
}

test('each reader of values takes time in proportion to the length of the text', async () => {
  const slow: string[] = [];
  for (const [name, read] of [...exported, ...Object.entries(texts), ...(await others())]) {
    for (const character of characters) {
      const found = growth(read, character);
      if (found === undefined) continue;
      slow.push(`${name}: ${found}`);
      break;
    }
  }
  expect(slow).toEqual([]);
}, 600_000); // half a minute of processor time, of which a busy machine gives a tenth
