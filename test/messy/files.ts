import { Chance, inWindows1252, plain, quoted, type MessyFile, type Person } from './writing.ts';

/**
 * Contacts as people have them in their files: a list of an office, and an export of HubSpot, with titles above the header,
 * sums below the rows, several values in a cell and numbers that a spreadsheet has spoilt. Written without a look at how the
 * service reads files.
 */

const count = 1_000;

const first = [
  'Jörg',
  'Hans-Jürgen',
  'Maria Theresia',
  'Zoé',
  'Łucja',
  "D'Arcy",
  'Bjørn',
  '李',
  'Max',
  'Ute',
  'Çiğdem',
];
const germanFirst = ['Jörg', 'Hans-Jürgen', 'Maria Theresia', 'Zoé', 'Bjørn', 'Max', 'Ute', 'Käthe'];
const last = [
  'von Bülow',
  'Müller-Lüdenscheidt',
  'O’Brien',
  'de la Cruz',
  'Nguyễn',
  'Šimić',
  'Null',
  'N/A-Smith',
  'Test',
  'True',
];
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
const firms = [
  'ACME, Inc.',
  'Foo "Bar" LLC',
  '=Equals SA',
  '@work',
  '1.000 Ideas',
  'Société Générale',
  '有限公司',
  'True',
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
function germanMobile(chance: Chance): { text: string; mobile: string; isInternational: boolean } {
  const rest = `${chance.one(['151', '160', '171', '175', '176'])}${chance.digits(8)}`.slice(0, 11);
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
  const [text, isInternational] = chance.one(ways);
  return { text, mobile, isInternational };
}

/** A list that an assistant has kept in Excel since 2009. */
function officeList(): MessyFile {
  const chance = new Chance(11);
  const people = new Map<string, Person>();
  let hopeless = 0;
  const header = (
    'Anrede|Titel|Vorname|Name|Firma|Abt.|Funktion|Telefon (geschäftlich)|Mobil|Fax|E-Mail (geschäftlich)|E-Mail privat|' +
    'Straße/Hausnr.|PLZ|Ort|Bundesland|Land|Geb.-Datum|Kundennummer|Umsatz 2023|Aktiv|Bemerkung||'
  ).split('|');
  const rows = Array.from({ length: count }, (_, n) => {
    const [firstName, lastName] = [chance.one(germanFirst), chance.one(germanLast)];
    const address = `${plain(firstName)}.${plain(lastName)}${n}@firma${n % 200}.de`;
    const { text, mobile, isInternational } = germanMobile(chance);
    const [country, code] = chance.one<[string, string | undefined]>([
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
    if (chance.in(150)) {
      hopeless += 1;
      return header.map((name) => (name === 'Bemerkung' ? 'siehe oben' : name === 'Umsatz 2023' ? '0,00' : ''));
    }
    const company = chance.one(germanFirms);
    const [title, city] = [
      chance.one([...titles, '']),
      chance.one(['Düsseldorf', 'St. Pölten', 'Frankfurt/Main', 'Zürich']),
    ];
    const postalCode = chance.one(['01067', '40213', '8001', 'D-80331', 'A-1010']);
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
    const mail = chance.one([
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
      Anrede: chance.one(['Herr', 'Frau', 'Hr.', 'Divers', '']),
      Titel: chance.one(['Dr.', 'Prof. Dr.', '', '', 'Dipl.-Ing.']),
      Vorname: firstName,
      Name: lastName,
      Firma: company,
      'Abt.': chance.one(['EK', 'VK', 'IT', '']),
      Funktion: title,
      'Telefon (geschäftlich)': chance.one([
        '0211-55 66 77',
        '+49 211 556677-0',
        '0211/556677 od. 0211/556678',
        '#NV',
        'k. A.',
        '0',
        '',
      ]),
      Mobil: text,
      Fax: chance.one(['0211-55 66 99', '']),
      'E-Mail (geschäftlich)': mail,
      'E-Mail privat': chance.one(['', '', `privat${n}@web.de`, 'privat(at)web.de', 'keine']),
      'Straße/Hausnr.': `Königsallee ${chance.below(200)} a`,
      PLZ: postalCode,
      Ort: city,
      Bundesland: chance.one(['NRW', 'Bayern', '']),
      Land: country,
      'Geb.-Datum': chance.one(['12.3.1975', '1.1.80', '', '00.01.1900', '29.02.1981']),
      Kundennummer: String(1000 + (n % 700)).padStart(8, '0'),
      'Umsatz 2023': chance.one(['1.234,50', '-', '12.000,00 €', '0,00', '#DIV/0!']),
      Aktiv: chance.one(['x', '', 'ja', 'WAHR']),
      Bemerkung: chance.one(['', 'ruft zurück\nbitte "dringend"', 'alt; nicht löschen!', '=A1', "'0815"]),
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
    name: 'Adressliste_neu_final (3).csv',
    bytes: inWindows1252(`${lines.join('\r\n')}\r\n`),
    people,
    records: count + 1,
    hopeless: hopeless + 1,
  };
}

/** Exported from HubSpot, and opened and saved in a spreadsheet program since. */
function crmExport(): MessyFile {
  const chance = new Chance(12);
  const people = new Map<string, Person>();
  let hopeless = 0;
  const header = (
    'Record ID|First Name|Last Name|Email|Phone Number|Mobile Phone Number|Contact owner|Primary company|Last Activity Date (CET)|' +
    'Lead Status|Marketing contact status|Create Date (CET)|Job Title|City|State/Region|Country/Region|Postal Code|Street Address|' +
    'Website URL|LinkedIn URL|Date of birth|Email Domain|Number of Form Submissions|Preferred language|Unsubscribed from all email|' +
    'Associated Deal|Notes|Owner email'
  ).split('|');
  const rows = Array.from({ length: count }, (_, n) => {
    const [firstName, lastName] = [chance.one(first), chance.one(last)];
    const address = `${plain(firstName)}_${plain(lastName)}.${n}@client${n % 333}.example.co.uk`;
    const [country, code, prefix, national] = chance.one<[string, string | undefined, string, string]>([
      ['united states', 'US', '+1', `212555${chance.digits(4)}`],
      ['USA', 'US', '+1', `415555${chance.digits(4)}`],
      ['England', 'GB', '+44', `7911${chance.digits(3)}${chance.digits(3)}`],
      ['United Kingdom', 'GB', '+44', `7911${chance.digits(6)}`],
      ['Czech Republic', 'CZ', '+420', `601${chance.digits(6)}`],
      ['The Netherlands', 'NL', '+31', `612${chance.digits(6)}`],
      ['Türkiye', 'TR', '+90', `532${chance.digits(7)}`],
      ['U.S.', 'US', '+1', `212555${chance.digits(4)}`],
      ['N/A', undefined, '+44', `7911${chance.digits(6)}`],
      ['Remote', undefined, '+44', `7911${chance.digits(6)}`],
    ]);
    if (chance.in(200)) {
      hopeless += 1;
      return header.map((name) => (name === 'Record ID' ? String(90_000_000_000 + n) : ''));
    }
    const company = chance.one(firms);
    const title = chance.one([...titles, '']);
    const city = chance.one(['New York, NY', 'Łódź', 'München', "King's Lynn"]);
    const postalCode = chance.one(['02139', 'SW1A 1AA', '110 00', '1012 AB']);
    const isSpoilt = chance.in(20);
    people.set(address, {
      firstName,
      lastName,
      company,
      title: title || undefined,
      city,
      postalCode,
      country: code,
      mobile: isSpoilt ? undefined : prefix + national,
    });
    const mobileText = isSpoilt
      ? `${prefix.slice(1)[0]}.${national.slice(0, 5)}E+11`
      : chance.one([
          `${prefix} ${national}`,
          `${prefix}${national}`,
          `${prefix} (${national.slice(0, 3)}) ${national.slice(3)}`,
        ]);
    const cells: Record<string, string> = {
      'Record ID': String(90_000_000_000 + n),
      'First Name': firstName,
      'Last Name': lastName,
      Email: chance.one([address, address, ` ${address}`, `${address},`, `<${address}>`, `mailto:${address}`]),
      'Phone Number': chance.one(['', '020 7946 0000', '+44 20 7946 0000 ext 12', '555-1234', 'see LinkedIn', '0']),
      'Mobile Phone Number': mobileText,
      'Contact owner': chance.one(['Jane Doe', '']),
      'Primary company': company,
      'Last Activity Date (CET)': '2024-03-04 05:06',
      'Lead Status': 'Open',
      'Create Date (CET)': '03/04/2023',
      'Job Title': title,
      City: city,
      'State/Region': chance.one(['NY', '', 'Greater London']),
      'Country/Region': country,
      'Postal Code': postalCode,
      'Street Address': '1 Main St, Apt "B"\n2nd floor',
      'Website URL': 'www.client.example',
      'LinkedIn URL': chance.one(['', `https://www.linkedin.com/in/x${n}`, `linkedin.com/in/x${n}`, 'none']),
      'Date of birth': chance.one(['', '1979-03-14', '14/03/79', 'March 14, 1979']),
      'Number of Form Submissions': String(chance.below(9)),
      'Preferred language': chance.one(['de', 'fr', 'it']),
      'Unsubscribed from all email': chance.one(['true', 'false', '']),
      Notes: chance.one(['', 'Line\r\nbreak', '{"json": true}', '\\N', '“smart” quotes – and dashes…']),
      'Owner email': 'jane@us.example.com',
    };
    return header.map((name) => cells[name] ?? '');
  });
  const text = [header, ...rows].map((cells) => cells.map((cell) => quoted(cell, ',')).join(',')).join('\r\n');
  return {
    name: 'hubspot-crm-exports-all-contacts-2024.csv',
    bytes: Buffer.from(`\ufeff${text}`),
    people,
    records: count,
    hopeless,
  };
}

export const messyFiles: [string, () => MessyFile][] = [
  ['an office list in Excel', officeList],
  ['HubSpot, saved again', crmExport],
];
