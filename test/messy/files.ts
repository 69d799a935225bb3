import { Chance, inWindows1252, plain, quoted, type MessyFile, type Person } from './writing.ts';

/**
 * Contacts as people really have them in their files: exports of Excel in German, of HubSpot and of Outlook, with the
 * mistakes that grow in years of use. Written without a look at how the service reads files.
 */

const count = 1_000;

const germanFirst = ['Jürgen', 'Anna-Lena', 'Björn', 'Käthe', 'Hans Peter', 'Zoë', 'Günther', 'Renée', 'Max', 'Ülkü'];
const germanLast = [
  'Müller',
  'von der Heide',
  'Groß',
  "D'Angelo",
  'Weiß-Schröder',
  'Öztürk',
  'Schmidt',
  'Zu Guttenberg',
];
const germanFirms = [
  'Müller & Söhne GmbH',
  'Bäckerei „Zum Löwen“',
  'ACME; Handel und Co. KG',
  'IT–Haus AG',
  '1&1 Versand',
];
const englishFirst = ['John', 'Mary Ann', 'José', 'Siobhán', 'Wei', 'Olivia', 'Łukasz', "D'Shawn", 'Þór', '伟'];
const englishLast = ['Smith', "O'Neill", 'van der Berg', 'García Márquez', 'Null', 'Nowak', 'Jr', 'True', 'Jönsson'];
const englishFirms = [
  'Acme, Inc.',
  '"Quotes" Ltd',
  '=HYPERLINK Media',
  '+Plus Partners',
  'Smith & Sons',
  '株式会社テスト',
];
const titles = ['CEO', 'Head of Sales', 'Geschäftsführer', 'Einkauf/Verkauf', 'Sales Manager, EMEA', '-Freelancer-'];

/** How a German mobile phone number is written; the last ways cannot be read without the country. */
const germanMobile = (chance: Chance): { text: string; mobile: string } => {
  const rest = `${chance.one(['151', '160', '171', '176'])}${chance.digits(8)}`.slice(0, 11);
  const ways = [`+49 ${rest.slice(0, 3)} ${rest.slice(3)}`, `0049${rest}`, `0${rest.slice(0, 3)}/${rest.slice(3)}`];
  const more = [`+49 (0) ${rest.slice(0, 3)} - ${rest.slice(3, 7)} ${rest.slice(7)}`, `0${rest}`];
  return { text: chance.one([...ways, ...more]), mobile: `+49${rest}` };
};

/** Excel in German: Windows-1252, semicolons, dates with dots, numbers with commas, rows that are empty at the end. */
export function germanExcel(): MessyFile {
  const chance = new Chance(1);
  const people = new Map<string, Person>();
  let hopeless = 0;
  const header = (
    'Kundennr.|Anrede|Vorname|Nachname|Firma|Position|E-Mail|Telefon|Handy|Straße|' +
    'PLZ|Ort|Land|Geburtsdatum|Branche|Umsatz|Newsletter|Letzter Kontakt|Notizen|'
  ).split('|');
  const rows = Array.from({ length: count }, (_, n) => {
    const [firstName, lastName] = [chance.one(germanFirst), chance.one(germanLast)];
    const address = `${plain(firstName)}.${plain(lastName)}${n}@firma-${n % 300}.de`;
    const { text: handy, mobile } = germanMobile(chance);
    const country = chance.one(['Deutschland', 'Deutschland', 'DE', 'GERMANY', 'Österreich', 'Schweiz', 'Germoney']);
    const isGerman = /^(deutschland|de|germany)$/i.test(country);
    const known: Record<string, string> = { Österreich: 'AT', Schweiz: 'CH' };
    const isHopeless = chance.in(200);
    if (isHopeless) {
      hopeless += 1;
      return ['', 'Herr', '', '', '', '', '', '', '', '', '', '', '', '', '', '', 'nein', '', 'bitte prüfen!', ''];
    }
    const mail = chance.one([
      address,
      address,
      ` ${address} `,
      `${firstName} ${lastName} <${address}>`,
      `mailto:${address}`,
    ]);
    const company = chance.one(germanFirms);
    const title = chance.one([...titles, '']);
    const postalCode = chance.one(['01067', '80331', '1010', '04109']);
    const city = chance.one(['Dresden', 'München', 'Köln a. Rh.', 'Wien']);
    people.set(address, {
      firstName,
      lastName,
      company,
      title: title || undefined,
      city,
      postalCode,
      country: isGerman ? 'DE' : known[country],
      // In another country the same digits are another number, or none.
      mobile: isGerman || /^(\+|00)49/.test(handy) ? mobile : undefined,
    });
    return [
      String(n + 1).padStart(7, '0'),
      chance.one(['Herr', 'Frau', 'Herr Dr.', 'k.A.', '']),
      firstName,
      lastName,
      company,
      title,
      mail,
      chance.one([
        `0351 / ${chance.digits(3)} ${chance.digits(2)}-${chance.digits(2)}`,
        `+49 (0)30 ${chance.digits(7)}`,
        'n/a',
        '-',
        '',
      ]),
      handy,
      `Hauptstraße ${1 + chance.below(200)}`,
      postalCode,
      city,
      country,
      chance.one(['12.03.1975', '1980', '01.01.99', '00.00.0000', 'unbekannt', '']),
      chance.one(['Maschinenbau', 'Lebensmittel', 'n/a', '']),
      chance.one(['1.234,50 €', '12 000', '-', '']),
      chance.one(['ja', 'nein', 'WAHR', '']),
      chance.one(['03.05.2024', '2024-05-03 14:00', 'gestern', '']),
      chance.one(['', 'Ruft zurück; morgen', 'sagt: "nie wieder"', 'Zeile 1\nZeile 2', '=SUMME(A1:A3)']),
      '',
    ];
  });
  const lines = [header, ...rows, ...Array.from({ length: 5 }, () => header.map(() => ''))];
  const text = lines.map((cells) => cells.map((cell) => quoted(cell, ';')).join(';')).join('\r\n');
  return { name: 'Kontakte 2024 (2).csv', bytes: inWindows1252(`${text}\r\n`), people, records: count, hopeless };
}

/** HubSpot: UTF-8, every cell quoted, long ids, several addresses and phone numbers in a cell. */
export function hubSpot(): MessyFile {
  const chance = new Chance(2);
  const people = new Map<string, Person>();
  let hopeless = 0;
  const header = (
    'Record ID|First Name|Last Name|Email|Phone Number|Mobile Phone Number|Contact owner|Lead Status|Job Title|Company Name|' +
    'City|State/Region|Postal Code|Country/Region|Industry|LinkedIn URL|Create Date|Last Activity Date|Number of times contacted|Marketing contact status'
  ).split('|');
  const rows = Array.from({ length: count }, (_, n) => {
    const [firstName, lastName] = [chance.one(englishFirst), chance.one(englishLast)];
    const address = `${plain(firstName)}.${plain(lastName)}+${n}@company${n % 250}.example.com`;
    const place = chance.one([
      { country: 'United States', code: 'US', mobile: `+1 (415) 555-${chance.digits(4)}` },
      { country: 'USA', code: 'US', mobile: `+1.212.555.${chance.digits(4)}` },
      { country: 'UK', code: 'GB', mobile: `+44 7911 ${chance.digits(3)}${chance.digits(3)}` },
      { country: 'Ireland', code: 'IE', mobile: `+353 87 ${chance.digits(3)} ${chance.digits(4)}` },
      { country: 'Poland', code: 'PL', mobile: `+48 512 ${chance.digits(3)} ${chance.digits(3)}` },
    ]);
    if (chance.in(250)) {
      hopeless += 1;
      return [`${10_000_000_000 + n}`, ...header.slice(1).map(() => '')];
    }
    const company = chance.one(englishFirms);
    const title = chance.one([...titles, '']);
    const [hasMobile, isBadMail] = [!chance.in(4), chance.in(100)];
    const postalCode = chance.one(['02139', 'SW1A 1AA', 'D02 X285', '00-950']);
    const city = chance.one(['Cambridge', 'London', 'Dublin', 'Łódź']);
    const person: Person = {
      firstName,
      lastName,
      company,
      title: title || undefined,
      city,
      postalCode,
      country: place.code,
      mobile: hasMobile ? `+${place.mobile.replaceAll(/\D/g, '')}` : undefined,
    };
    if (!isBadMail) people.set(address, person);
    return [
      `${10_000_000_000 + n}`,
      firstName,
      lastName,
      isBadMail
        ? chance.one(['none', 'john@', 'a b@c.d'])
        : chance.one([address, address, `${address}; second${n}@example.org`]),
      chance.one(['', `+44 20 7946 0${chance.digits(3)}`, 'ext. 12', `020 7946 0${chance.digits(3)}`, '123']),
      hasMobile ? place.mobile : '',
      chance.one(['Jane Doe', 'No owner', '']),
      chance.one(['NEW', 'OPEN', 'In Progress', '']),
      title,
      company,
      city,
      chance.one(['MA', 'Greater London', '']),
      postalCode,
      place.country,
      chance.one(['COMPUTER_SOFTWARE', 'Retail', '']),
      chance.one([`https://www.linkedin.com/in/p${n}`, `linkedin.com/in/p${n}`, '']),
      '2023-11-04 09:12',
      chance.one(['2024-01-02 03:04', '']),
      `${chance.below(40)}`,
      'Non-marketing contact',
    ];
  });
  const text = [header, ...rows].map((cells) => cells.map((cell) => quoted(cell, ',', true)).join(',')).join('\n');
  return {
    name: 'hubspot-crm-exports-all-contacts.csv',
    bytes: Buffer.from(`${text}\n`),
    people,
    records: count,
    hopeless,
  };
}

/** Outlook: UTF-8 with a byte order mark, ninety columns that are mostly empty, several phone numbers. */
export function outlook(): MessyFile {
  const chance = new Chance(3);
  const people = new Map<string, Person>();
  let hopeless = 0;
  const header = [
    ...(
      'Title|First Name|Middle Name|Last Name|Suffix|Company|Department|Job Title|Business Street|Business City|' +
      'Business State|Business Postal Code|Business Country/Region|Home Street|Home City|Home Postal Code|Home Country/Region|Business Fax|Business Phone|Business Phone 2|' +
      'Home Phone|Mobile Phone|Birthday|Categories|E-mail Address|E-mail Type|E-mail Display Name|E-mail 2 Address|Gender|Notes|' +
      'Priority|Private|Sensitivity|Web Page'
    ).split('|'),
    ...Array.from({ length: 56 }, (_, i) => `User ${i + 1}`),
  ];
  const rows = Array.from({ length: count }, (_, n) => {
    const [firstName, lastName] = [chance.one(englishFirst), chance.one(englishLast)];
    const address = `${plain(firstName)}${plain(lastName)}${n}@mail${n % 90}.example.net`;
    const { text: mobileText, mobile } = germanMobile(chance);
    const country = chance.one(['Germany', 'Deutschland', 'Germany', 'Frankreich', 'España']);
    const code = { Germany: 'DE', Deutschland: 'DE', Frankreich: 'FR', España: 'ES' }[country];
    const cells = new Map<string, string>();
    if (chance.in(300)) {
      hopeless += 1;
      cells.set('Notes', 'old card').set('Priority', 'Normal');
      return header.map((name) => cells.get(name) ?? '');
    }
    const hasMail = !chance.in(5);
    const company = chance.one([...englishFirms, '']);
    const title = chance.one([...titles, '']);
    const city = chance.one(['Berlin', 'Lyon', 'A Coruña']);
    cells
      .set('Title', chance.one(['Mr.', 'Ms', 'Dr.', '']))
      .set('First Name', firstName)
      .set('Middle Name', chance.one(['', 'J.', 'Maria']))
      .set('Last Name', lastName)
      .set('Company', company)
      .set('Job Title', title)
      .set('Business Street', `${1 + chance.below(99)} Main St\r\nFloor ${1 + chance.below(9)}`)
      .set('Business City', city)
      .set('Business Postal Code', chance.one(['10115', '69001', '']))
      .set('Business Country/Region', country)
      .set('Business Phone', chance.one(['+49 30 901820', '(030) 90 18 20', '', 'see notes']))
      .set('Mobile Phone', mobileText)
      .set('Birthday', chance.one(['0/0/00', '3/14/1979', '']))
      .set('E-mail Address', hasMail ? address : '')
      .set('E-mail Type', hasMail ? 'SMTP' : '')
      .set('E-mail Display Name', hasMail ? `${firstName} ${lastName} (${address})` : '')
      .set('E-mail 2 Address', chance.in(6) ? `other${n}@example.org` : '')
      .set('Gender', 'Unspecified')
      .set('Notes', chance.one(['', 'met at fair\r\ncall "later"', 'line1\nline2, and more']))
      .set('Priority', 'Normal')
      .set('Private', 'False')
      .set('Sensitivity', 'Normal');
    if (hasMail)
      people.set(address, {
        firstName,
        lastName,
        company: company || undefined,
        title: title || undefined,
        city,
        country: code,
        mobile: code === 'DE' || /^(\+|00)49/.test(mobileText) ? mobile : undefined,
      });
    return header.map((name) => cells.get(name) ?? '');
  });
  const text = [header, ...rows]
    .map((cells) => cells.map((cell) => quoted(cell, ',', cell !== '')).join(','))
    .join('\r\n');
  return { name: 'contacts.CSV', bytes: Buffer.from(`\ufeff${text}\r\n`), people, records: count, hopeless };
}

export const messyFiles: [string, () => MessyFile][] = [
  ['German Excel', germanExcel],
  ['HubSpot', hubSpot],
  ['Outlook', outlook],
];
