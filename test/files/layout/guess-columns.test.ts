import { describe, expect, test } from 'vitest';
import type { ImportFile } from '../../../src/files/encodings.ts';
import type { Mapping } from '../../../src/schemas/imports.ts';
import { usedMapping } from '../../../src/files/settle-layout.ts';
import { contacts, layoutFor } from '../reading.ts';

const guessed: ImportFile = { ...contacts, guess: true };
const companies: ImportFile = { ...guessed, object: 'companies' };

/** The fields of a file's columns by header, without those that are left out. */
async function fieldsOf(
  file: ImportFile,
  headers: readonly string[],
  rows: readonly (readonly string[])[] = [],
  remembered?: Mapping,
): Promise<Record<string, string>> {
  const line = (cells: readonly string[]) => cells.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',');
  const text = [headers, ...rows].map(line).join('\n');
  const layout = await layoutFor(file, text, remembered);
  return Object.fromEntries(headers.flatMap((header, i) => (layout.columns[i] ? [[header, layout.columns[i]]] : [])));
}

/** Reads columns that are written as `header=field|header`: of the second one the field is not known. */
function read(columns: string): { headers: string[]; fields: Record<string, string> } {
  const pairs = columns.split('|').map((column) => column.split('='));
  const known = pairs.filter(([, field]) => field !== undefined);
  return { headers: pairs.map(([header]) => header!), fields: Object.fromEntries(known) as Record<string, string> };
}

describe('headers of contacts are recognised', () => {
  test.each([
    [
      'in English',
      'Given name=first_name|SURNAME=last_name|E-Mail Address=work_email|Telephone=phone_numbers|Cell=mobile_phone|Job position=job_title|Employer=company.name|Town=location_locality|County=location_region|Postcode=location_postal_code|Country=location_country|Date of birth=birth_year|Sex=gender',
    ],
    [
      'in German',
      'Anrede|Vorname=first_name|Name=last_name|Firma=company.name|Funktion=job_title|E-Mail-Adresse=work_email|Tel.-Nr.=phone_numbers|Handynummer=mobile_phone|PLZ=location_postal_code|Ort=location_locality|Bundesland=location_region|Land=location_country|Geburtsdatum=birth_year|Geschlecht=gender|Branche=industry|Bemerkung',
    ],
    [
      'in French',
      'Civilité|Prénom=first_name|Nom=last_name|Société=company.name|Fonction=job_title|Adresse e-mail=work_email|Téléphone=phone_numbers|Portable=mobile_phone|Code postal=location_postal_code|Ville=location_locality|Région=location_region|Pays=location_country|Date de naissance=birth_year|Secteur d’activité=industry',
    ],
    [
      'in Spanish',
      'Nombre=first_name|Apellidos=last_name|Empresa=company.name|Cargo=job_title|Correo electrónico=work_email|Teléfono=phone_numbers|Móvil=mobile_phone|Código postal=location_postal_code|Ciudad=location_locality|Provincia=location_region|País=location_country|Fecha de nacimiento=birth_year|Sexo=gender',
    ],
    [
      'of HubSpot',
      'Record ID=external_id|First Name=first_name|Last Name=last_name|Email=work_email|Phone Number=phone_numbers|Mobile Phone Number=mobile_phone|Contact owner|Company Name=company.name|Job Title=job_title|City=location_locality|State/Region=location_region|Postal Code=location_postal_code|Country/Region=location_country|LinkedIn URL=profnet_url|Additional email addresses=other_emails|Lead Status',
    ],
    [
      'of Salesforce',
      'Salutation|First Name=first_name|Last Name=last_name|Title=job_title|Account Name=company.name|Mailing Street|Mailing City=location_locality|Mailing State/Province=location_region|Mailing Zip/Postal Code=location_postal_code|Mailing Country=location_country|Phone=phone_numbers|Fax|Mobile=mobile_phone|Email=work_email|Contact Owner|Contact ID=external_id',
    ],
    [
      'of Apollo',
      'First Name=first_name|Last Name=last_name|Title=job_title|Company Name=company.name|Company Name for Emails|Email=work_email|Email Status|Seniority|Work Direct Phone=phone_numbers|Home Phone|Mobile Phone=mobile_phone|Corporate Phone|# Employees|Industry=industry|Person Linkedin Url=profnet_url|Website|Company Linkedin Url|Facebook Url|Twitter Url|City=location_locality|State=location_region|Country=location_country|Company City|Secondary Email=other_emails|Apollo Contact Id=external_id',
    ],
    [
      'of Google',
      'First Name=first_name|Middle Name=middle_name|Last Name=last_name|Nickname|File As|Organization Name=company.name|Organization Title=job_title|Birthday=birth_year|Notes|Labels|E-mail 1 - Label|E-mail 1 - Value=work_email|E-mail 2 - Value=other_emails|Phone 1 - Label|Phone 1 - Value=phone_numbers|Address 1 - City=location_locality|Address 1 - Region=location_region|Address 1 - Postal Code=location_postal_code|Address 1 - Country=location_country',
    ],
    [
      'of Outlook',
      'Title|First Name=first_name|Middle Name=middle_name|Last Name=last_name|Company=company.name|Job Title=job_title|Home City|Business City=location_locality|Business State=location_region|Business Postal Code=location_postal_code|Business Country/Region=location_country|Business Fax|Business Phone=phone_numbers|Mobile Phone=mobile_phone|Birthday=birth_year|E-mail Address=work_email|E-mail Type|E-mail 2 Address=other_emails|Gender=gender',
    ],
    [
      'of Outlook in German',
      'Vorname=first_name|Nachname=last_name|Firma=company.name|Position=job_title|Ort geschäftlich=location_locality|Land/Region geschäftlich=location_country|Telefon geschäftlich=phone_numbers|Mobiltelefon=mobile_phone|E-Mail-Adresse=work_email|E-Mail 2: Adresse=other_emails',
    ],
    [
      'of Excel in German, with short words',
      'Nachname=last_name|Vorname=first_name|Tel. geschäftlich=phone_numbers|Handy-Nr.=mobile_phone|E-Mail geschäftlich=work_email|Geb.-Datum=birth_year',
    ],
    [
      'that this service gives files for people',
      'First name=first_name|Work e-mail=work_email|Phone numbers=phone_numbers|Company=company.name|City=location_locality|Profile=profnet_url|Year of birth=birth_year|Score',
    ],
    [
      'whatever their case and punctuation',
      'COMPANY=company.name|job-title=job_title|E_MAIL=work_email|Country:=location_country',
    ],
    ['of a full name, if there are no parts of it', 'Name=full_name|Mail=work_email'],
    ['of a full name in French', 'Nom=full_name|Courriel=work_email'],
    ['but not of a name beside its parts', 'Name|First Name=first_name|Last Name=last_name'],
  ])('%s', async (_what, columns) => {
    const { headers, fields } = read(columns);
    expect(await fieldsOf(guessed, headers)).toEqual(fields);
  });

  test('of LinkedIn, below its notes', async () => {
    const notes =
      'Notes:\n"When exporting your connection data, you may notice that some of the email addresses are missing."\n\n';
    const header = 'First Name,Last Name,URL,Email Address,Company,Position,Connected On\n';
    const rows = ['Ada', 'Bob', 'Cy'].map(
      (name) => `${name},L,https://www.linkedin.com/in/${name},,Acme,CEO,12 Nov 2024\n`,
    );
    const text = notes + header + rows.join('');
    const layout = await layoutFor(guessed, text);
    expect(layout.columns).toEqual([
      'first_name',
      'last_name',
      'profnet_url',
      'work_email',
      'company.name',
      'job_title',
      null,
    ]);
  });
});

test.each([
  [
    'HubSpot',
    'Record ID=external_id|Company name=company_name|Company owner|Phone Number|City=location_locality|State/Region=location_region|Country/Region=location_country|Industry=industry|Number of Employees=size|Street Address=location_street_address|Type=type',
  ],
  [
    'Salesforce',
    'Account Name=company_name|Account ID=external_id|Billing Street=location_street_address|Billing City=location_locality|Billing Zip/Postal Code=location_postal_code|Billing Country=location_country|Employees=size',
  ],
  [
    'German',
    'Firma=company_name|Straße=location_street_address|PLZ=location_postal_code|Ort=location_locality|Land=location_country|Mitarbeiterzahl=size',
  ],
  [
    'French',
    'Raison sociale=company_name|Adresse=location_street_address|Code postal=location_postal_code|Ville=location_locality|Pays=location_country|Effectif=size',
  ],
  [
    'Spanish',
    'Empresa=company_name|Dirección=location_street_address|Ciudad=location_locality|País=location_country|Número de empleados=size',
  ],
])('headers of companies are recognised: %s', async (_what, columns) => {
  const { headers, fields } = read(columns);
  expect(await fieldsOf(companies, headers)).toEqual(fields);
});

describe('what the first records hold', () => {
  const rowsOf = (...cells: string[]) => cells.map((cell) => ['x', cell]);
  test.each([
    ['e-mail addresses', ['a@x.example', 'B <b@x.example>', 'c@x.example', ''], 'work_email'],
    ['phone numbers', ['+49 30 901820', '+44 (0)20 7946 0000', '0033 1 42 68 53 00'], 'phone_numbers'],
    ['countries', ['Deutschland', 'France', 'United Kingdom'], 'location_country'],
    ['profiles', ['linkedin.com/in/a', 'https://www.linkedin.com/in/b', 'https://de.linkedin.com/in/c'], 'profnet_url'],
    ['codes, which can be languages', ['DE', 'FR', 'IT'], undefined],
    ['long numbers, which can be ids', ['4930901820', '442079460000', '33142685300'], undefined],
    [
      'one address for all, which is not theirs',
      ['a@x.example', 'a@x.example', 'a@x.example', 'a@x.example'],
      undefined,
    ],
    ['too few values', ['a@x.example', 'b@x.example'], undefined],
  ])('shows the field of a column with another header: %s', async (_what, cells, field) => {
    expect((await fieldsOf(guessed, ['first_name', 'Whatever'], rowsOf(...cells)))['Whatever']).toBe(field);
  });

  test.each([
    ['Title', ['Mr.', 'Ms', 'Prof. Dr.']],
    ['State', ['open', 'closed', 'open']],
    ['E-Mail', ['yes', 'no', 'yes']],
    ['Mobile', ['no', 'yes', 'yes']],
    ['Land', ['Acker', 'Wiese', 'Wald']],
    ['ID', ['7', '7', '8']],
    ['Owner email', ['a@x.example', 'b@x.example', 'c@x.example']],
    ['Nationality', ['Deutschland', 'France', 'United Kingdom']],
  ])('speaks against a column %s', async (header, cells) => {
    expect((await fieldsOf(guessed, ['first_name', header], rowsOf(...cells)))[header]).toBeUndefined();
  });

  test('is looked at in 200 records only', async () => {
    const cells = [...Array.from({ length: 200 }, () => ''), 'a@x.example', 'b@x.example', 'c@x.example'];
    expect((await fieldsOf(guessed, ['first_name', 'Whatever'], rowsOf(...cells)))['Whatever']).toBeUndefined();
    expect((await fieldsOf(guessed, ['first_name', 'Whatever'], rowsOf(...cells.slice(100))))['Whatever']).toBe(
      'work_email',
    );
  });

  test('tells names of companies and foreign ids from our own fields', async () => {
    const rows = [
      ['Acme', '4711'],
      ['Beta', '4712'],
    ];
    expect(await fieldsOf(guessed, ['company', 'id'], rows)).toEqual({ company: 'company.name', id: 'external_id' });
    const own = [['{}', '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b']];
    expect(await fieldsOf({ ...guessed, mode: 'update', match: 'id' }, ['company', 'id'], own)).toEqual({
      company: 'company',
      id: 'id',
    });
  });
});

describe('a field', () => {
  test('is guessed for one column, the one with the better name', async () => {
    expect(await fieldsOf(guessed, ['Home City', 'City', 'Business City', 'City'])).toEqual({
      'Business City': 'location_locality',
    });
    expect(await fieldsOf(guessed, ['work_email', 'E-Mail'])).toEqual({ work_email: 'work_email' });
  });

  test('is guessed for a column that holds something, before an empty one with a better name', async () => {
    const headers = ['Email', 'Business Phone', 'Home Phone'];
    const rows = [['ada@example.com', '', '+49 30 901820']];
    expect(await fieldsOf(guessed, headers, rows)).toEqual({ Email: 'work_email', 'Home Phone': 'phone_numbers' });
    expect(await fieldsOf(guessed, headers, [['ada@example.com', '', '']])).toEqual({
      Email: 'work_email',
      'Business Phone': 'phone_numbers',
    });
  });

  test('is first what the mapping says, then what the last import had, then a name, then a guess', async () => {
    const headers = ['E-Mail', 'Mail', 'industry', 'Ort'];
    const remembered: Mapping = { 'E-Mail': 'personal_email', Mail: 'work_email', industry: null };
    const mapping: Mapping = { 'E-Mail': null };
    expect(await fieldsOf(guessed, headers, [], remembered)).toEqual({
      'E-Mail': 'personal_email',
      Mail: 'work_email',
      Ort: 'location_locality',
    });
    const layout = await layoutFor({ ...guessed, mapping }, headers.join(), remembered);
    expect(layout.columns).toEqual([null, 'work_email', null, 'location_locality']);
    expect(layout.origins).toEqual(['given', 'remembered', 'remembered', 'guess']);
  });

  test('that was left out is left out again, however often files with these headers come', async () => {
    let known: Mapping = { 'E-mail': 'work_email', 'E-mail 2': null };
    for (let i = 0; i < 3; i += 1) {
      const layout = await layoutFor(guessed, 'E-mail,E-mail 2\na@x.example,b@x.example\n', known);
      expect(layout.columns).toEqual(['work_email', null]);
      known = usedMapping(layout);
    }
  });

  test('is not guessed and nothing is remembered without `guess`', async () => {
    const headers = ['first_name', 'E-Mail'];
    await expect(fieldsOf(contacts, headers, [], { 'E-Mail': 'work_email' })).rejects.toThrow(
      '"E-Mail" is not the name',
    );
  });
});
