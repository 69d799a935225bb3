import { seeded, type Random } from '../../src/commands/generate-people.ts';
import { inWindows1252, plain, quoted, type MessyFile, type Person } from './writing.ts';

/**
 * Contacts as people have them in their files, with titles above the header, sums below the rows and several values in a
 * cell. Written without a look at how the service reads files.
 */

const count = 1_000;

const germanFirst = ['Jörg', 'Hans-Jürgen', 'Maria Theresia', 'Zoé', 'Bjørn', 'Max', 'Ute', 'Käthe'];
const germanLast = [
  'von Bülow',
  'Müller-Lüdenscheidt',
  'Weiß',
  'Graf Dracula',
  'Null',
  'Beyer',
  'Schäfer',
  'Zum Felde',
];
const germanFirms = [
  'Maschinenbau "Nord" GmbH',
  'Fa. Schulze; Inh. K. Schulze',
  'Ä&Ö KG',
  '4711 Duft AG',
  '- keine -',
  'GbR Meyer/Meier',
];
const titles = [
  'CEO',
  'Leiter Einkauf, DACH',
  'Vertrieb/Innendienst',
  'VP; Sales',
  '+1 Guy',
  'Dr. Ing.',
  'Head of "Stuff"',
];

/** How people in Germany write the number of a mobile phone; the first ways say the country. */
function germanMobile(random: Random): { text: string; mobile: string; isInternational: boolean } {
  const rest = `${random.pick(['151', '160', '171', '175', '176'])}${random.below(90_000_000) + 10_000_000}`.slice(
    0,
    11,
  );
  const mobile = `+49${rest}`;
  const [area, number] = [rest.slice(0, 3), rest.slice(3)];
  const ways: [string, boolean][] = [
    [`+49 ${area} ${number}`, true],
    [`+49-${area}-${number.slice(0, 4)}-${number.slice(4)}`, true],
    [`+49(0)${area}/${number}`, true],
    [`(+49) ${area} ${number}`, true],
    [`0${area} ${number.slice(0, 2)} ${number.slice(2, 4)} ${number.slice(4)}`, false],
    [`0${area}-${number}`, false],
    [`0049 (0)${area} ${number}`, false],
    [`0${area}.${number}`, false],
  ];
  const [text, isInternational] = random.pick(ways);
  return { text, mobile, isInternational };
}

/** A list that an assistant has kept in Excel since 2009. */
export function officeList(): MessyFile {
  const random = seeded(11);
  const people = new Map<string, Person>();
  let hopeless = 0;
  const header = (
    'Anrede|Titel|Vorname|Name|Firma|Abt.|Funktion|Telefon (geschäftlich)|Mobil|Fax|E-Mail (geschäftlich)|E-Mail privat|' +
    'Straße/Hausnr.|PLZ|Ort|Bundesland|Land|Geb.-Datum|Kundennummer|Umsatz 2023|Aktiv|Bemerkung||'
  ).split('|');
  const rows = Array.from({ length: count }, (_, n) => {
    const [firstName, lastName] = [random.pick(germanFirst), random.pick(germanLast)];
    const address = `${plain(firstName)}.${plain(lastName)}${n}@firma${n % 200}.de`;
    const { text, mobile, isInternational } = germanMobile(random);
    const [country, code] = random.pick<[string, string | undefined]>([
      ['Deutschland', 'DE'],
      ['DEUTSCHLAND ', 'DE'],
      ['DE', 'DE'],
      ['Germany', 'DE'],
      ['D', 'DE'],
      ['A', 'AT'],
      ['Österreich', 'AT'],
      ['Schweiz', 'CH'],
      ['', undefined],
      ['Bayern', undefined],
    ]);
    if (random.below(150) === 0) {
      hopeless += 1;
      return header.map((name) => (name === 'Bemerkung' ? 'siehe oben' : name === 'Umsatz 2023' ? '0,00' : ''));
    }
    const company = random.pick(germanFirms);
    const [title, city] = [
      random.pick([...titles, '']),
      random.pick(['Düsseldorf', 'St. Pölten', 'Frankfurt/Main', 'Zürich']),
    ];
    const postalCode = random.pick(['01067', '40213', '8001', 'D-80331', 'A-1010']);
    people.set(address, {
      firstName,
      lastName,
      company,
      title: title || undefined,
      city,
      postalCode,
      country: code,
      mobile: code === 'DE' || isInternational ? mobile : undefined,
    });
    const mail = random.pick([
      address,
      address,
      address,
      address.toUpperCase(),
      `${address}; info@firma${n % 200}.de`,
      `${address} `,
      `"${lastName}, ${firstName}" <${address}>`,
      `E-Mail: ${address}`,
    ]);
    const cells: Record<string, string> = {
      Anrede: random.pick(['Herr', 'Frau', 'Hr.', 'Divers', '']),
      Titel: random.pick(['Dr.', 'Prof. Dr.', '', '', 'Dipl.-Ing.']),
      Vorname: firstName,
      Name: lastName,
      Firma: company,
      'Abt.': random.pick(['EK', 'VK', 'IT', '']),
      Funktion: title,
      'Telefon (geschäftlich)': random.pick([
        '0211-55 66 77',
        '+49 211 556677-0',
        '0211/556677 od. 0211/556678',
        '#NV',
        'k. A.',
        '0',
        '',
      ]),
      Mobil: text,
      Fax: random.pick(['0211-55 66 99', '']),
      'E-Mail (geschäftlich)': mail,
      'E-Mail privat': random.pick(['', '', `privat${n}@web.de`, 'privat(at)web.de', 'keine']),
      'Straße/Hausnr.': `Königsallee ${random.below(200)} a`,
      PLZ: postalCode,
      Ort: city,
      Bundesland: random.pick(['NRW', 'Bayern', '']),
      Land: country,
      'Geb.-Datum': random.pick(['12.3.1975', '1.1.80', '', '00.01.1900', '29.02.1981']),
      Kundennummer: String(1000 + (n % 700)).padStart(8, '0'),
      'Umsatz 2023': random.pick(['1.234,50', '-', '12.000,00 €', '0,00', '#DIV/0!']),
      Aktiv: random.pick(['x', '', 'ja', 'WAHR']),
      Bemerkung: random.pick(['', 'ruft zurück\nbitte "dringend"', 'alt; nicht löschen!', '=A1', "'0815"]),
    };
    return header.map((name) => cells[name] ?? '');
  });
  const sums: string[] = header.map((name) => (name === 'Umsatz 2023' ? '1.234.567,89' : ''));
  sums[0] = 'Summe';
  const notes = ['Adressliste Vertrieb – Stand 12.11.2024', '', header];
  const lines = [...notes, ...rows, header.map(() => ''), sums, ['']].map((line) =>
    typeof line === 'string' ? line + ';'.repeat(header.length - 1) : line.map((cell) => quoted(cell, ';')).join(';'),
  );
  return {
    bytes: inWindows1252(`${lines.join('\r\n')}\r\n`),
    people,
    hopeless: hopeless + 1,
  };
}
