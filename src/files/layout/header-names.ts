import type { ImportObject } from '../../schemas/imports.ts';
import type { FieldTable } from '../../schemas/base/field-table.ts';
import { companyTable } from '../../schemas/companies.ts';
import { contactTable } from '../../schemas/contacts.ts';
import { words } from '../../text/fold.ts';

/** A name whose meaning depends on the other columns. */
export interface OpenName {
  keys: readonly string[];
  field: string;
  /** All of these fields have a column. */
  beside?: readonly string[];
  /** None of these fields has a column. */
  without?: readonly string[];
}

const openNames: readonly (Omit<OpenName, 'keys'> & { names: string })[] = [
  { names: 'Nombre', field: 'first_name', beside: ['last_name'] },
  { names: 'Name|Nom', field: 'last_name', beside: ['first_name'] },
  { names: 'Name|Nom|Nombre', field: 'full_name', without: ['first_name', 'last_name'] },
  // Beside a job title, it is a salutation.
  { names: 'Title|Titel|Titre', field: 'job_title' },
];

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

function knownNames(table: FieldTable): ReadonlyMap<string, KnownName> {
  const known = new Map<string, KnownName>();
  for (const [field, { label, headers }] of Object.entries(table))
    // Files that this service has exported for people have its own titles.
    for (const [rank, key] of headers ? keysOf([field, headers, label].join('|')).entries() : [])
      if (key !== '' && !known.has(key)) known.set(key, { field, rank });
  return known;
}

export const namesOfFields: Record<ImportObject, ReadonlyMap<string, KnownName>> = {
  contacts: knownNames(contactTable),
  companies: knownNames(companyTable),
  // Their columns are not guessed.
  products: new Map(),
  opportunities: new Map(),
};

export const openNamesOf: Record<ImportObject, readonly OpenName[]> = {
  contacts: openNames.map(({ names, ...rest }) => ({ keys: keysOf(names), ...rest })),
  companies: [],
  products: [],
  opportunities: [],
};
