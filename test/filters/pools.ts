/**
 * Texts of several scripts that the random records and filters are made of. Each has its folded form, written by hand,
 * so that the expected result does not come from the function under test.
 */
export const texts: readonly (readonly [given: string, folded: string])[] = [
  ['', ''],
  [' ', ''],
  ['a', 'a'],
  ['Ada', 'ada'],
  ['ÁDA', 'ada'],
  ['ada lovelace', 'ada lovelace'],
  ['Ada  Lovelace ', 'ada lovelace'],
  ['Zoë', 'zoe'],
  ['zz', 'zz'],
  ['Straße', 'strasse'],
  ['STRASSE', 'strasse'],
  ['Ærø', 'aero'],
  ['Łódź', 'lodz'],
  ['Zürich Böse', 'zurich bose'],
  ['Mueller', 'mueller'],
  ['Müller', 'muller'],
  ["O'Neil", "o'neil"],
  ['50% off_now', '50% off_now'],
  ['50x offynow', '50x offynow'],
  ['back\\slash', 'back\\slash'],
  ['Σίσυφος', 'σισυφοσ'],
  ['ΣΊΣΥΦΟΣ', 'σισυφοσ'],
  ['İzmir', 'izmir'],
  ['ızmır', 'izmir'],
  ['Москва', 'москва'],
  ['МОСКВА', 'москва'],
  ['हिन्दी', 'हिन्दी'],
  ['محمد', 'محمد'],
  ['東京', '東京'],
  ['ガ', 'ガ'],
  ['カ', 'カ'],
  ['한글', '한글'],
  ['\ufffd', '\ufffd'],
  ['😀', '😀'],
  ['\ue000', '\ue000'],
  ['𐐀', '𐐨'],
  ['ſoft', 'soft'],
  ['e\u0301te\u0301', 'ete'],
  ['100%_\\', '100%_\\'],
];

const padding = 'a long text '.repeat(200);

/** Texts that are too long for the index of parts of texts. */
export const longTexts: typeof texts = texts.map(([given, expected]) => [
  `${padding}${given}`,
  `${padding}${expected}`.trim(),
]);

/** Parts of these texts, for `contains` and similar operators. */
export const needles: readonly (readonly [given: string, folded: string])[] = [
  ['', ''],
  ['D', 'd'],
  ['da', 'da'],
  ['ß', 'ss'],
  ['æ', 'ae'],
  ['%', '%'],
  ['_', '_'],
  ['\\', '\\'],
  ["'", "'"],
  [' ', ''],
  ['ΦΟΣ', 'φοσ'],
  ['LONG', 'long'],
  ['Ск', 'ск'],
  ['न', 'न'],
  ['ı', 'i'],
  ['ſ', 's'],
  ['\u0301', ''],
  ['😀', '😀'],
];

export const emails: readonly (readonly [given: string, folded: string])[] = [
  ['ada@example.com', 'ada@example.com'],
  ['ADA@Example.com', 'ada@example.com'],
  ['o.neil@example.org', 'o.neil@example.org'],
  ['zoe+tag@example.net', 'zoe+tag@example.net'],
];

/** Search texts with the words they contain. */
export const searches: readonly (readonly [given: string, words: readonly string[]])[] = [
  ['', []],
  ['— !', []],
  ['ADA', ['ada']],
  ['example ada', ['example', 'ada']],
  ["o'neil@EXAMPLE.org", ['o', 'neil', 'example', 'org']],
  ['STRASSE com', ['strasse', 'com']],
  ['ß Æ', ['ss', 'ae']],
  ['москва zo', ['москва', 'zo']],
  ['50% off_now', ['50', 'off', 'now']],
  ['τ', ['τ']],
  ['σ', ['σ']],
  ['東', ['東']],
  ['Zuerich boese', ['zuerich', 'boese']],
  ['Mueller', ['mueller']],
];

/** Instants as requests write them. Some are less than a millisecond apart. */
export const instants: readonly string[] = [
  '2026-01-01T00:00:00.000Z',
  '2026-01-01T00:00:00.001Z',
  '2026-01-01T01:00:00.0019+01:00',
  '2026-03-14t09:26:53z',
  '1969-12-31T23:59:59.999Z',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999Z',
];

/** Values of `external_id`, which is compared exactly: no two of them are the same record, however alike they look. */
export const externalIds: readonly string[] = [
  'Ada',
  'ada',
  'ÁDA',
  ' ada ',
  'a',
  '50%',
  '5_0',
  'back\\slash',
  'Москва',
  '東京都-1',
  '𝒳𝒴𝒵',
  ...Array.from({ length: 20 }, (_, i) => `crm-${4700 + i}`),
];

/** Domains as requests write them, and as they are stored and compared. */
export const domains: ReadonlyMap<string, string> = new Map([
  ['acme.de', 'acme.de'],
  ['https://www.ACME.de/about?x=1', 'acme.de'],
  ['shop.acme.de', 'shop.acme.de'],
  ['acme.com', 'acme.com'],
  ['Müller.de', 'müller.de'],
  ['http://www.xn--mller-kva.de', 'müller.de'],
  ['muller.de', 'muller.de'],
  ['No domain', 'no domain'],
]);

export const folded = new Map([...texts, ...longTexts, ...needles, ...emails]);
