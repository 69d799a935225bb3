import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { exampleOfPeople, Filters, filterFieldsOf, OrderBy, textOfPeople } from './filters.ts';
import { VerificationStatus } from './verification.ts';

const PhoneNumber = wire.Strict(
  {
    country_code: wire.Text(255, { description: 'International prefix with `+`; `""` if unknown.', examples: ['+44'] }),
    number: wire.Text(255, { description: 'The number without the prefix, as free text.', examples: ['20 7946 0000'] }),
  },
  { title: 'PhoneNumber' },
);

const writable = {
  external_id: wire.ExternalId(),
  first_name: wire.Name({ description: 'First name: 1–255 characters.', examples: ['Ada'] }),
  middle_name: wire.Nullable(wire.Text(255, { description: 'Middle name.', examples: ['King'] })),
  last_name: wire.Name({ description: 'Last name: 1–255 characters.', examples: ['Lovelace'] }),
  gender: wire.Nullable(wire.Text(255, { description: 'Gender, as free text.', examples: ['female'] })),
  birth_year: wire.Nullable(
    Type.Integer({ minimum: 1, maximum: 9999, description: 'Year of birth.', examples: [1815] }),
  ),
  profnet_url: wire.Nullable(wire.Url('Profile in the professional network.')),
  social1_url: wire.Nullable(wire.Url('Profile in a social network.')),
  social2_url: wire.Nullable(wire.Url('Profile in another social network.')),
  work_email: wire.Nullable(
    wire.Email(
      'E-mail address at work. Several contacts may have the same. Verifications are about this address. Null: none; ' +
        'then the contact needs an `external_id`, a `profnet_url` or a phone number.',
    ),
  ),
  personal_email: wire.Nullable(wire.Email('Private e-mail address.')),
  other_emails: wire.Nullable(
    Type.Array(wire.Email(), { maxItems: 20, description: 'Further e-mail addresses, at most 20.' }),
  ),
  industry: wire.Text(255, {
    description: 'Industry that the person works in, as free text.',
    examples: ['Computing'],
  }),
  job_title: wire.Text(255, { description: 'Job title.', examples: ['Analyst'] }),
  location_locality: wire.Text(255, { description: 'Town or city.', examples: ['London'] }),
  location_country: wire.Country(),
  location_region: wire.Text(255, { description: 'State, county or province.', examples: ['England'] }),
  location_postal_code: wire.Nullable(wire.Text(255, { description: 'Postal code.', examples: ['SW1A 1AA'] })),
  phone_numbers: Type.Array(PhoneNumber, {
    maxItems: 20,
    description: 'Phone numbers, at most 20. `[]`: none.',
    examples: [[{ country_code: '+44', number: '20 7946 0000' }]],
  }),
  mobile_phone: wire.Nullable(wire.Text(255, 'Mobile phone number, as free text.')),
  custom_fields: wire.CustomFields(),
};

const answered = {
  ...writable,
  first_name: wire.Text(255, { description: 'First name. `""` if none.', examples: ['Ada'] }),
  last_name: wire.Text(255, { description: 'Last name. `""` if none.', examples: ['Lovelace'] }),
  work_email: wire.Text(254, {
    description: 'E-mail address at work. `""` if none.',
    examples: ['ada.lovelace@example.com'],
  }),
};

const ContactCompany = Type.Object(
  {
    id: wire.Nullable(wire.Uuid('Id of the company. Null: the contact has no company.')),
    company_name: Type.String({ description: 'Name of the company; `""` without a company.' }),
    industry: Type.String({ description: 'Industry of the company; `""` without a company.' }),
  },
  { title: 'ContactCompany', description: 'The company that the contact works for. It is always an object.' },
);

const contactProperties = {
  id: wire.Uuid('Id of the contact.'),
  ...answered,
  company: ContactCompany,
  score: wire.Score(),
  verification_status: VerificationStatus(),
  last_verified: wire.Instant('When `work_email` was last verified; if never, when the contact was created.'),
  crm_synced_at: wire.Nullable(wire.Instant('When a job with `sync_crm` last wrote to this contact. Null: none did.')),
  removal_requested_at: wire.Nullable(
    wire.Instant(
      'When the person, whom you had unlocked in the prospect catalog, was erased there on request. Null: never.',
    ),
  ),
  assigned_to: wire.Nullable(wire.Uuid('The responsible user. Null: nobody.')),
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
};

export const Contact = Type.Object(contactProperties, { title: 'Contact' });
export type Contact = Static<typeof Contact>;

export const ContactDetail = wire.Named('ContactDetail', {
  ...contactProperties,
  list_ids: Type.Array(wire.Uuid(), {
    description:
      'The lists to which the contact was added by hand. Lists that it is in by their rules are not shown here.',
  }),
  last_activity_at: wire.LastActivityAt(),
});
export type ContactDetail = Static<typeof ContactDetail>;

const having = (name: string) => ({ properties: { [name]: {} }, required: [name] });

/**
 * Names the company of a contact by its id, name or domain. If no company has the name or domain, one is created. An
 * empty object means no company.
 */
const CompanyReference = wire.Strict(
  {
    id: Type.Optional(wire.Uuid('An existing company. Alone.')),
    external_id: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, description: 'An existing company, by your own id of it. Alone.' }),
    ),
    domain: Type.Optional(
      wire.Domain(
        'The oldest company with this domain is used; if there is none, it is created, called `name` or the domain.',
      ),
    ),
    name: Type.Optional(
      wire.Name({
        description:
          'Name of the company. Without `domain`, the oldest company with this name is used, whatever its case and accents; if there is none, it is created.',
        examples: ['Analytical Engines Ltd'],
      }),
    ),
    industry: Type.Optional(
      wire.Text(255, {
        description: 'Industry of a company that is created. Only together with `name` or `domain`.',
        examples: ['Computing'],
      }),
    ),
  },
  {
    title: 'CompanyReference',
    description: 'The company that the contact works for: by `id`, `external_id`, `domain` or `name`. `{}`: none.',
    examples: [{ name: 'Analytical Engines Ltd' }],
    not: {
      type: 'object',
      anyOf: [
        { ...having('id'), minProperties: 2 },
        { ...having('external_id'), minProperties: 2 },
        { ...having('industry'), not: { anyOf: [having('name'), having('domain')] } },
      ],
      description: 'must be an id, an external_id, or a name or domain or both; industry only beside a name or domain',
    },
  },
);
export type CompanyReference = Static<typeof CompanyReference>;

const references = {
  assigned_to: wire.Uuid('The responsible user: an id from `GET /api/ext/customer/users`.'),
  company: CompanyReference,
  list_ids: wire.Ids(
    'Existing lists to which the contact is added by hand. In a PATCH they replace the lists that it was added to; `[]`: no list.',
  ),
};

const { assigned_to } = references;

export const contactFields = Object.keys({ ...writable, assigned_to }) as (keyof typeof writable | 'assigned_to')[];

const { first_name, last_name, work_email, phone_numbers, ...optional } = { ...writable, ...references };

export const ContactCreate = Type.Composite(
  [
    Type.Object({ first_name, last_name, work_email, phone_numbers }),
    Type.Partial(Type.Object({ ...optional, custom_fields: wire.CustomFieldsPatch() })),
  ],
  {
    additionalProperties: false,
    title: 'ContactCreate',
    examples: [
      {
        first_name: 'Ada',
        last_name: 'Lovelace',
        work_email: 'ada.lovelace@example.com',
        phone_numbers: [{ country_code: '+44', number: '20 7946 0000' }],
        job_title: 'Analyst',
        company: { name: 'Analytical Engines Ltd', industry: 'Computing' },
      },
    ],
  },
);
export type ContactCreate = Static<typeof ContactCreate>;

export const ContactPatch = wire.PartialBody(
  'ContactPatch',
  [{ job_title: 'Chief Analyst', mobile_phone: null, custom_fields: { plan: 'gold' } }],
  {
    ...writable,
    ...references,
    custom_fields: wire.CustomFieldsPatch(),
    assigned_to: wire.Nullable(references.assigned_to),
    company: wire.Nullable(CompanyReference),
  },
);
export type ContactPatch = Static<typeof ContactPatch>;

/**
 * Name of the column with a contact's lists in files that people read. It shows only lists to which the contact was
 * added by hand.
 */
export const listNames = 'list_names';

/** Fields of contacts. To add a field, add it here, to `writable` and to a migration. */
export const contactTable = {
  first_name: {
    label: 'First name',
    filter: 'text',
    isSearched: true,
    form: { group: 'Person' },
    headers: 'First name|Given name|Forename|Vorname|Rufname|Prénom|Nombre de pila|Primer nombre|Nombres',
  },
  middle_name: {
    label: 'Middle name',
    filter: 'text',
    isSearched: true,
    form: { group: 'Person' },
    headers:
      'Middle name|Additional name|Second name|Zweiter Vorname|Weitere Vornamen|Deuxième prénom|Autres prénoms|Segundo nombre',
  },
  last_name: {
    label: 'Last name',
    filter: 'text',
    isSearched: true,
    isIndexed: true,
    form: { group: 'Person' },
    headers:
      'Last name|Surname|Family name|Nachname|Familienname|Zuname|Nom de famille|Apellidos|Apellido|Primer apellido',
  },
  full_name: {
    label: 'Full name',
    isInternal: true,
    headers:
      'Full name|Contact name|Display name|Vollständiger Name|Vor- und Nachname|Name, Vorname|Nachname, Vorname|Ansprechpartner|' +
      'Kontaktname|Kontaktperson|Nom complet|Nom et prénom|Nom, prénom|Prénom et nom|Nom du contact|Nombre completo|' +
      'Nombre y apellidos|Apellidos y nombre|Persona de contacto',
  },
  note: wire.noteEntry,
  work_email: {
    label: 'Work e-mail',
    filter: 'text',
    isSearched: true,
    isIndexed: true,
    form: { group: 'How to reach them', control: 'email' },
    headers:
      'Work e-mail|Business e-mail|Company e-mail|E-mail|E-mail address|Email 1|E-mail 1 - Value|E-mail 1 address|Primary e-mail|' +
      'Mail|Mail address|Mailadresse|E-Mail-Adresse|E-Mail geschäftlich|E-Mail (geschäftlich)|Geschäftliche E-Mail|E-Mail dienstlich|' +
      'Adresse e-mail|Adresse mail|Adresse de messagerie|E-mail professionnel|E-mail pro|Courriel|Mél|Adresse courriel|' +
      'Correo electrónico|Correo|Dirección de correo electrónico|Dirección de correo|Correo de trabajo|Correo electrónico del trabajo|' +
      'E-mail laboral|Correo corporativo',
  },
  personal_email: {
    label: 'Personal e-mail',
    filter: 'text',
    isSearched: true,
    form: { group: 'How to reach them', control: 'email' },
    headers:
      'Personal e-mail|Private e-mail|Home e-mail|Private E-Mail-Adresse|E-Mail privat|E-Mail (privat)|E-mail personnel|' +
      'Courriel personnel|Correo personal|Correo electrónico personal',
  },
  other_emails: {
    label: 'Other e-mails',
    isSearched: true,
    form: { group: 'How to reach them', control: 'lines', hint: 'One on each line.' },
    headers:
      'Other e-mails|Other e-mail|Additional e-mail addresses|Additional e-mails|Secondary e-mail|Alternate e-mail|E-mail 2 address|' +
      'E-mail 2 - Value|E-mail 2|E-Mail 2: Adresse|E-Mail 2: Adresse|Weitere E-Mail-Adressen|Weitere E-Mails|Weitere E-Mail|' +
      'Autre e-mail|Autres e-mails|Adresse de messagerie 2|Otros correos|Otro correo|Correo electrónico 2',
  },
  phone_numbers: {
    label: 'Phone numbers',
    form: { group: 'How to reach them', control: 'phones', hint: 'One on each line, such as +44 20 7946 0000.' },
    isInTools: true,
    headers:
      'Phone numbers|Phone number|Phone|Work phone|Business phone|Office phone|Work direct phone|Direct phone|Company phone|Main phone|' +
      'Corporate phone|Phone 1 - Value|Phone 1|Telephone|Telephone number|Tel|Tel. no.|Telefon|Telefonnummer|Telefonnr|Tel.-Nr.|Rufnummer|' +
      'Telefon geschäftlich|Telefon (geschäftlich)|Telefon dienstlich|Telefon Büro|Telefon Firma|Telefon Arbeit|Tel. geschäftlich|' +
      'Tel. dienstlich|Tel. Büro|Tel. Firma|Tel. Arbeit|Durchwahl|Festnetz|Festnetznummer|Téléphone|' +
      'Numéro de téléphone|N° de téléphone|Téléphone (bureau)|Téléphone bureau|Téléphone fixe|Téléphone professionnel|Tél. bureau|' +
      'Teléfono|Número de teléfono|Teléfono del trabajo|Teléfono fijo|Teléfono de la oficina|Home phone|Telefon privat|' +
      'Telefon (privat)|Tel. privat|Other phone',
  },
  mobile_phone: {
    label: 'Mobile phone',
    type: 'phone',
    filter: 'text',
    form: { group: 'How to reach them' },
    isInTools: true,
    headers:
      'Mobile phone|Mobile phone number|Mobile|Mobile number|Cell|Cell phone|Cell phone number|Cellphone|Handy|Handynummer|Handy-Nr.|' +
      'Mobil|Mobilnummer|Mobiltelefon|Telefon mobil|Tel. mobil|Handy geschäftlich|Mobil geschäftlich|Mobilfunk|Mobilfunknummer|Portable|' +
      'Téléphone portable|Téléphone mobile|Tél. mobile|' +
      'Tél. portable|Numéro de portable|Móvil|Teléfono móvil|Tel. móvil|Celular|Teléfono celular',
  },
  company: {
    label: 'Company',
    references: 'company',
    isInternal: true,
    form: { group: 'Work', control: 'company', hint: 'A company with this name is used, or created if there is none.' },
    isInTools: true,
  },
  job_title: {
    label: 'Job title',
    filter: 'text',
    form: { group: 'Work' },
    isInTools: true,
    headers:
      'Job title|Job position|Position|Jobtitel|Jobbezeichnung|Berufsbezeichnung|Stellenbezeichnung|Funktion|Stelle|' +
      'Organization 1 - Title|Organization title|Fonction|Poste|Intitulé du poste|Titre du poste|Profession|Cargo|Puesto|' +
      'Puesto de trabajo|Función',
  },
  'company.name': {
    label: 'Company',
    headers:
      'Company|Company name|Company / Account|Account name|Account|Organization|Organisation|Organization name|Organisation name|' +
      'Organization 1 - Name|Employer|Associated company|Primary associated company|Primary company|Associated company name|' +
      'Firma|Firmenname|Unternehmen|Unternehmensname|Arbeitgeber|Société|Entreprise|Nom de l’entreprise|Nom de la société|Employeur|' +
      'Empresa|Compañía|Nombre de la empresa|Nombre de empresa|Organización',
  },
  'company.industry': {
    label: 'Industry of the company',
    filter: 'text',
    headers: 'Company industry|Industry of the company|Branche der Firma|Branche des Unternehmens|Account industry',
  },
  'company.domain': {
    label: 'Domain of the company',
    isInternal: true,
    headers:
      'Company domain|Company domain name|Company website|Company website domain|Account domain|Organization domain|Firmendomain|' +
      'Firmenwebseite|Domäne der Firma|Domaine de l’entreprise|Dominio de la empresa',
  },
  'company.external_id': {
    label: 'Your own id of the company',
    isInternal: true,
    headers: 'Company external id|External id of the company',
  },
  'company.company_name': { label: 'Company', filter: 'text', isInternal: true },
  'company.id': { label: 'Id of the company', isInternal: true },
  company_id: { label: 'Id of the company', filter: 'uuid', isInternal: true },
  industry: {
    label: 'Industry',
    filter: 'text',
    form: { group: 'Work' },
    isInTools: true,
    headers:
      'Industry|Industry sector|Branche|Wirtschaftszweig|Secteur|Secteur d’activité|Industrie|Sector|Sector de actividad|Industria',
  },
  assigned_to: {
    label: 'Assigned to',
    references: 'users',
    filter: 'uuid',
    isInternal: true,
    form: { group: 'Work', control: 'user' },
  },
  location_locality: {
    label: 'City',
    filter: 'text',
    form: { group: 'Place' },
    isInTools: true,
    headers:
      'Business city|Work city|Mailing city|Address 1 - City|City|Town|City/Town|Locality|Ort|Stadt|Wohnort|Ort geschäftlich|' +
      'Ort (geschäftlich)|Stadt (geschäftlich)|Ville (bureau)|Ville|Localité|Commune|Ciudad del trabajo|Ciudad|Localidad|Población|' +
      'Municipio|Home city',
  },
  location_region: {
    label: 'Region',
    filter: 'text',
    form: { group: 'Place' },
    headers:
      'Business state|Mailing state/province|Mailing state|Address 1 - Region|State/Region|State/Province|State or province|State|' +
      'Region|Province|County|Bundesland/Kanton geschäftlich|Bundesland|Kanton|Région|Dép/Région (bureau)|Provincia|Comunidad autónoma|' +
      'Región|Home state',
  },
  location_postal_code: {
    label: 'Postal code',
    filter: 'text',
    form: { group: 'Place' },
    headers:
      'Business postal code|Mailing zip/postal code|Mailing postal code|Address 1 - Postal code|Postal code|Postcode|Zip code|Zip|' +
      'Zip/Postal code|PLZ|Postleitzahl|Postleitzahl geschäftlich|Postleitzahl (geschäftlich)|Code postal (bureau)|Code postal|CP|' +
      'Código postal del trabajo|Código postal|C.P.|Home postal code',
  },
  location_country: {
    label: 'Country',
    filter: 'text',
    form: { group: 'Place', control: 'country' },
    isInTools: true,
    headers:
      'Business country/region|Business country|Mailing country|Address 1 - Country|Country/Region|Country|Country code|Country name|' +
      'Land/Region geschäftlich|Land/Region|Land (geschäftlich)|Land|Ländercode|Länderkürzel|Pays/Région (bureau)|Pays|Pays/Région|' +
      'Code pays|País o región del trabajo|País|País/Región|Home country/region|Home country',
  },
  profnet_url: {
    label: 'Profile',
    filter: 'text',
    form: { group: 'Profiles and more', control: 'url' },
    isInTools: true,
    headers:
      'LinkedIn URL|LinkedIn|LinkedIn profile|LinkedIn profile URL|Person LinkedIn URL|LinkedIn link|Profile URL|Profile|Profnet|' +
      'LinkedIn-Profil|Profil LinkedIn|Perfil de LinkedIn|Perfil LinkedIn',
  },
  social1_url: {
    label: 'Social profile',
    filter: 'text',
    form: { group: 'Profiles and more', control: 'url' },
    headers: 'Facebook|Facebook profile|Social profile|Facebook-Profil|Profil Facebook|Perfil de Facebook',
  },
  social2_url: {
    label: 'Second social profile',
    filter: 'text',
    form: { group: 'Profiles and more', control: 'url' },
    headers: 'Twitter|Twitter profile|X profile|Second social profile|Twitter-Profil|Profil Twitter|Perfil de Twitter',
  },
  gender: {
    label: 'Gender',
    filter: 'text',
    form: { group: 'Person' },
    headers: 'Gender|Sex|Geschlecht|Sexe|Genre|Sexo|Género|Salutation|Anrede|Civilité|Tratamiento',
  },
  birth_year: {
    label: 'Year of birth',
    filter: 'integer',
    form: { group: 'Person', control: 'number' },
    headers:
      'Year of birth|Birth year|Birthday|Birthdate|Date of birth|DOB|Geburtsjahr|Geburtstag|Geburtsdatum|Geb.-Datum|Geb.|Année de naissance|' +
      'Date de naissance|Anniversaire|Año de nacimiento|Fecha de nacimiento|Cumpleaños',
  },
  external_id: {
    label: 'Your own id',
    filter: 'exact',
    isInternal: true,
    form: { group: 'Profiles and more', control: 'text', hint: 'The id of the contact in another system of yours.' },
    isInTools: true,
    headers:
      'External id|Record ID|Record ID - Contact|Contact ID|Lead ID|Apollo contact id|Kontakt-ID|Datensatz-ID|ID du contact|' +
      'Identifiant|ID de contacto|ID del contacto|ID',
  },
  verification_status: { label: 'E-mail status', filter: 'text' },
  score: { label: 'Score', filter: 'integer', isIndexed: true },
  [listNames]: { label: 'Lists' },
  list_ids: { label: 'Lists', references: 'lists', isInternal: true, isInTools: true },
  last_verified: { label: 'Last verified', filter: 'instant' },
  crm_synced_at: { label: 'Last written by a job', filter: 'instant' },
  removal_requested_at: { label: 'Removal requested', filter: 'instant' },
  last_activity_at: { label: 'Last activity', isInternal: true },
  created_at: { label: 'Created', filter: 'instant', isIndexed: true },
  updated_at: { label: 'Last changed', filter: 'instant', isIndexed: true },
  id: { label: 'Id', filter: 'uuid', isInternal: true },
  list_id: { label: 'List', filter: 'uuid', isUnsorted: true, isInternal: true },
  custom_fields: { label: 'Your own fields', isInternal: true, isInTools: true },
  search: { label: 'Search', filter: 'search', isUnsorted: true, isInternal: true },
} satisfies wire.FieldTable<keyof ContactDetail>;

export const contactFilterFields = filterFieldsOf('contacts', 'Contact', contactTable);
export const ContactFilters = Filters(
  contactFilterFields,
  `${textOfPeople}\nA number of at least 5 digits also finds the phone numbers that contain it, however both are written.`,
  exampleOfPeople,
);
const listed = { filters: ContactFilters, order_by: OrderBy(contactFilterFields) };

export const ContactQuery = wire.PartialBody(
  'ContactQuery',
  [{ filters: { location_country: 'GB' }, order_by: { last_name: 'ASC' }, paginate: { page: 1, limit: 25 } }],
  { ...listed, paginate: wire.PaginateOrContinue },
);
export type ContactQuery = Static<typeof ContactQuery>;

export const ContactCount = wire.PartialBody('ContactCount', [{ filters: { location_country: 'GB' } }], {
  ...listed,
  paginate: wire.Paginate,
});
