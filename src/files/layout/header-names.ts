import type { ImportObject } from '../../schemas/imports.ts';
import { companyLabels, contactLabels } from '../../schemas/fields.ts';
import { words } from '../../text/fold.ts';

// To teach the service another header, add it to the line of its field. Case, accents, white space and punctuation do
// not matter. Earlier names of a line are preferred: of `Business City` and `Home City`, the first is taken.

/** Names that stand for one field whatever else the file has. */
const contactNames: Record<string, string> = {
  first_name: 'First name|Given name|Forename|Vorname|Rufname|Prénom|Nombre de pila|Primer nombre|Nombres',
  middle_name:
    'Middle name|Additional name|Second name|Zweiter Vorname|Weitere Vornamen|Deuxième prénom|Autres prénoms|Segundo nombre',
  last_name:
    'Last name|Surname|Family name|Nachname|Familienname|Zuname|Nom de famille|Apellidos|Apellido|Primer apellido',
  full_name:
    'Full name|Contact name|Display name|Vollständiger Name|Vor- und Nachname|Name, Vorname|Nachname, Vorname|Ansprechpartner|' +
    'Kontaktname|Kontaktperson|Nom complet|Nom et prénom|Nom, prénom|Prénom et nom|Nom du contact|Nombre completo|' +
    'Nombre y apellidos|Apellidos y nombre|Persona de contacto',
  work_email:
    'Work e-mail|Business e-mail|Company e-mail|E-mail|E-mail address|Email 1|E-mail 1 - Value|E-mail 1 address|Primary e-mail|' +
    'Mail|Mail address|Mailadresse|E-Mail-Adresse|E-Mail geschäftlich|E-Mail (geschäftlich)|Geschäftliche E-Mail|E-Mail dienstlich|' +
    'Adresse e-mail|Adresse mail|Adresse de messagerie|E-mail professionnel|E-mail pro|Courriel|Mél|Adresse courriel|' +
    'Correo electrónico|Correo|Dirección de correo electrónico|Dirección de correo|Correo de trabajo|Correo electrónico del trabajo|' +
    'E-mail laboral|Correo corporativo',
  personal_email:
    'Personal e-mail|Private e-mail|Home e-mail|Private E-Mail-Adresse|E-Mail privat|E-Mail (privat)|E-mail personnel|' +
    'Courriel personnel|Correo personal|Correo electrónico personal',
  other_emails:
    'Other e-mails|Other e-mail|Additional e-mail addresses|Additional e-mails|Secondary e-mail|Alternate e-mail|E-mail 2 address|' +
    'E-mail 2 - Value|E-mail 2|E-Mail 2: Adresse|E-Mail 2: Adresse|Weitere E-Mail-Adressen|Weitere E-Mails|Weitere E-Mail|' +
    'Autre e-mail|Autres e-mails|Adresse de messagerie 2|Otros correos|Otro correo|Correo electrónico 2',
  phone_numbers:
    'Phone numbers|Phone number|Phone|Work phone|Business phone|Office phone|Work direct phone|Direct phone|Company phone|Main phone|' +
    'Corporate phone|Phone 1 - Value|Phone 1|Telephone|Telephone number|Tel|Tel. no.|Telefon|Telefonnummer|Telefonnr|Tel.-Nr.|Rufnummer|' +
    'Telefon geschäftlich|Telefon (geschäftlich)|Telefon dienstlich|Telefon Büro|Telefon Firma|Telefon Arbeit|Tel. geschäftlich|' +
    'Tel. dienstlich|Tel. Büro|Tel. Firma|Tel. Arbeit|Durchwahl|Festnetz|Festnetznummer|Téléphone|' +
    'Numéro de téléphone|N° de téléphone|Téléphone (bureau)|Téléphone bureau|Téléphone fixe|Téléphone professionnel|Tél. bureau|' +
    'Teléfono|Número de teléfono|Teléfono del trabajo|Teléfono fijo|Teléfono de la oficina|Home phone|Telefon privat|' +
    'Telefon (privat)|Tel. privat|Other phone',
  mobile_phone:
    'Mobile phone|Mobile phone number|Mobile|Mobile number|Cell|Cell phone|Cell phone number|Cellphone|Handy|Handynummer|Handy-Nr.|' +
    'Mobil|Mobilnummer|Mobiltelefon|Telefon mobil|Tel. mobil|Handy geschäftlich|Mobil geschäftlich|Mobilfunk|Mobilfunknummer|Portable|' +
    'Téléphone portable|Téléphone mobile|Tél. mobile|' +
    'Tél. portable|Numéro de portable|Móvil|Teléfono móvil|Tel. móvil|Celular|Teléfono celular',
  job_title:
    'Job title|Job position|Position|Jobtitel|Jobbezeichnung|Berufsbezeichnung|Stellenbezeichnung|Funktion|Stelle|' +
    'Organization 1 - Title|Organization title|Fonction|Poste|Intitulé du poste|Titre du poste|Profession|Cargo|Puesto|' +
    'Puesto de trabajo|Función',
  'company.name':
    'Company|Company name|Company / Account|Account name|Account|Organization|Organisation|Organization name|Organisation name|' +
    'Organization 1 - Name|Employer|Associated company|Primary associated company|Primary company|Associated company name|' +
    'Firma|Firmenname|Unternehmen|Unternehmensname|Arbeitgeber|Société|Entreprise|Nom de l’entreprise|Nom de la société|Employeur|' +
    'Empresa|Compañía|Nombre de la empresa|Nombre de empresa|Organización',
  'company.industry':
    'Company industry|Industry of the company|Branche der Firma|Branche des Unternehmens|Account industry',
  industry:
    'Industry|Industry sector|Branche|Wirtschaftszweig|Secteur|Secteur d’activité|Industrie|Sector|Sector de actividad|Industria',
  location_locality:
    'Business city|Work city|Mailing city|Address 1 - City|City|Town|City/Town|Locality|Ort|Stadt|Wohnort|Ort geschäftlich|' +
    'Ort (geschäftlich)|Stadt (geschäftlich)|Ville (bureau)|Ville|Localité|Commune|Ciudad del trabajo|Ciudad|Localidad|Población|' +
    'Municipio|Home city',
  location_region:
    'Business state|Mailing state/province|Mailing state|Address 1 - Region|State/Region|State/Province|State or province|State|' +
    'Region|Province|County|Bundesland/Kanton geschäftlich|Bundesland|Kanton|Région|Dép/Région (bureau)|Provincia|Comunidad autónoma|' +
    'Región|Home state',
  location_postal_code:
    'Business postal code|Mailing zip/postal code|Mailing postal code|Address 1 - Postal code|Postal code|Postcode|Zip code|Zip|' +
    'Zip/Postal code|PLZ|Postleitzahl|Postleitzahl geschäftlich|Postleitzahl (geschäftlich)|Code postal (bureau)|Code postal|CP|' +
    'Código postal del trabajo|Código postal|C.P.|Home postal code',
  location_country:
    'Business country/region|Business country|Mailing country|Address 1 - Country|Country/Region|Country|Country code|Country name|' +
    'Land/Region geschäftlich|Land/Region|Land (geschäftlich)|Land|Ländercode|Länderkürzel|Pays/Région (bureau)|Pays|Pays/Région|' +
    'Code pays|País o región del trabajo|País|País/Región|Home country/region|Home country',
  profnet_url:
    'LinkedIn URL|LinkedIn|LinkedIn profile|LinkedIn profile URL|Person LinkedIn URL|LinkedIn link|Profile URL|Profile|Profnet|' +
    'LinkedIn-Profil|Profil LinkedIn|Perfil de LinkedIn|Perfil LinkedIn',
  social1_url: 'Facebook|Facebook profile|Social profile|Facebook-Profil|Profil Facebook|Perfil de Facebook',
  social2_url:
    'Twitter|Twitter profile|X profile|Second social profile|Twitter-Profil|Profil Twitter|Perfil de Twitter',
  gender: 'Gender|Sex|Geschlecht|Sexe|Genre|Sexo|Género',
  birth_year:
    'Year of birth|Birth year|Birthday|Birthdate|Date of birth|DOB|Geburtsjahr|Geburtstag|Geburtsdatum|Geb.-Datum|Geb.|Année de naissance|' +
    'Date de naissance|Anniversaire|Año de nacimiento|Fecha de nacimiento|Cumpleaños',
  external_id:
    'External id|Record ID|Record ID - Contact|Contact ID|Lead ID|Apollo contact id|Kontakt-ID|Datensatz-ID|ID du contact|' +
    'Identifiant|ID de contacto|ID del contacto|ID',
};

const companyNames: Record<string, string> = {
  company_name:
    'Company name|Company|Account name|Account|Organization name|Organisation name|Organization|Organisation|Business name|Name|' +
    'Firmenname|Firma|Unternehmen|Unternehmensname|Firmenbezeichnung|Nom de l’entreprise|Nom de la société|Raison sociale|Société|' +
    'Entreprise|Nom|Nombre de la empresa|Razón social|Empresa|Compañía|Nombre',
  type: 'Company type|Account type|Type|Unternehmenstyp|Firmentyp|Typ|Type d’entreprise|Tipo de empresa|Tipo',
  industry:
    'Industry|Industry sector|Branche|Wirtschaftszweig|Secteur|Secteur d’activité|Industrie|Sector|Sector de actividad|Industria',
  size:
    'Size|Company size|Number of employees|Employees|# Employees|No. of employees|Employee count|Headcount|Mitarbeiter|' +
    'Mitarbeiterzahl|Anzahl Mitarbeiter|Anzahl der Mitarbeiter|Unternehmensgröße|Firmengröße|Effectif|Effectifs|Nombre d’employés|' +
    'Nombre de salariés|Taille|Taille de l’entreprise|Número de empleados|Empleados|Tamaño|Tamaño de la empresa',
  location_street_address:
    'Street address|Street|Billing street|Company street|Address line 1|Address 1|Address|Company address|Straße|Straße und Hausnummer|' +
    'Str.|Anschrift|Adresse|Rue|Adresse 1|Adresse postale|Dirección|Calle|Domicilio',
  location_address_line_2:
    'Street address 2|Address line 2|Address 2|Second address line|Adresszusatz|Adresszeile 2|Adresse 2|Complément d’adresse|' +
    'Dirección 2|Complemento de dirección',
  location_locality:
    'City|Billing city|Company city|Town|City/Town|Locality|Ort|Stadt|Sitz|Ville|Localité|Commune|Ciudad|Localidad|Población|Municipio',
  location_metro: 'Metropolitan area|Metro area|Metro|Metropolregion|Ballungsraum|Agglomération|Área metropolitana',
  location_region:
    'State/Region|State/Province|Billing state/province|Billing state|Company state|State or province|State|Region|Province|County|' +
    'Bundesland|Kanton|Région|Provincia|Comunidad autónoma|Región',
  location_postal_code:
    'Postal code|Billing zip/postal code|Billing postal code|Company postal code|Postcode|Zip code|Zip|Zip/Postal code|PLZ|Postleitzahl|' +
    'Code postal|CP|Código postal|C.P.',
  location_country:
    'Country/Region|Country|Billing country|Company country|Country code|Country name|Land|Land/Region|Ländercode|Länderkürzel|Pays|' +
    'Pays/Région|Code pays|País|País/Región',
  profnet_url:
    'LinkedIn company page|Company LinkedIn URL|LinkedIn URL|LinkedIn|LinkedIn page|LinkedIn profile|Profile|LinkedIn-Seite|' +
    'LinkedIn-Profil|Page LinkedIn|Página de LinkedIn',
  social1_url:
    'Facebook company page|Facebook URL|Facebook|Facebook page|Social profile|Facebook-Seite|Page Facebook|Página de Facebook',
  social2_url:
    'Twitter URL|Twitter|Twitter profile|Second social profile|Twitter-Profil|Profil Twitter|Perfil de Twitter',
  external_id:
    'External id|Record ID|Record ID - Company|Company ID|Account ID|Apollo account id|Firmen-ID|Unternehmens-ID|Datensatz-ID|' +
    'ID de l’entreprise|Identifiant|ID de la empresa|ID',
};

/** A name whose meaning depends on the other columns. */
export interface OpenName {
  keys: readonly string[];
  field: string;
  /** All of these fields have a column. */
  beside?: readonly string[];
  /** None of these fields has a column. */
  without?: readonly string[];
}

const openNames: Record<ImportObject, readonly (Omit<OpenName, 'keys'> & { names: string })[]> = {
  contacts: [
    { names: 'Nombre', field: 'first_name', beside: ['last_name'] },
    { names: 'Name|Nom', field: 'last_name', beside: ['first_name'] },
    { names: 'Name|Nom|Nombre', field: 'full_name', without: ['first_name', 'last_name'] },
    // Beside a job title, it is a salutation.
    { names: 'Title|Titel|Titre', field: 'job_title' },
  ],
  companies: [],
};

/** Returns the form in which headers are compared. */
export const headerKey = (header: string): string => words(header).join('');

const keysOf = (names: string): string[] => names.split('|').map(headerKey);

/** Words of headers in Spanish and Portuguese, and in no other language. */
const iberian = new Set(
  'nombre nombres apellido apellidos correo pais ciudad puesto direccion telefono movil sobrenome apelido telefone celular cidade endereco'.split(
    ' ',
  ),
);

/** True for a file in Spanish or Portuguese. */
export const isIberian = (headers: readonly string[]): boolean =>
  headers.slice(0, 200).some((header) => words(header.slice(0, 200)).some((word) => iberian.has(word)));

/** A header that stands for a field. `rank`: 0 for the preferred name. */
export interface KnownName {
  field: string;
  rank: number;
}

function knownNames(
  names: Record<string, string>,
  labels: Readonly<Record<string, string | null>>,
): ReadonlyMap<string, KnownName> {
  const known = new Map<string, KnownName>();
  for (const [field, list] of Object.entries(names))
    // Files that this service has exported for people have its own titles.
    for (const [rank, key] of keysOf([field, list, labels[field] ?? ''].join('|')).entries())
      if (key !== '' && !known.has(key)) known.set(key, { field, rank });
  return known;
}

export const namesOfFields: Record<ImportObject, ReadonlyMap<string, KnownName>> = {
  contacts: knownNames(contactNames, contactLabels),
  companies: knownNames(companyNames, companyLabels),
};

export const openNamesOf: Record<ImportObject, readonly OpenName[]> = {
  contacts: openNames.contacts.map(({ names, ...rest }) => ({ keys: keysOf(names), ...rest })),
  companies: [],
};
