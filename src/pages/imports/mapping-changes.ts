import type { Fault } from '../../errors.ts';
import { encodingNamed } from '../../files/encodings.ts';
import type { DetailedPreview } from '../../jobs/imports/preview-import.ts';
import type { ImportState } from '../../queries/imports/imports.ts';
import { companyBatches, contactBatches } from '../../schemas/batches.ts';
import { customKey } from '../../schemas/filters.ts';
import {
  customTypes,
  fieldOfMapped,
  type CustomType,
  type Import,
  type ImportPatch,
  type ImportPreview,
  type InvalidValues,
  type MappedField,
} from '../../schemas/imports.ts';
import { text, unchanged, type Fields } from '../base/forms.ts';

/** Returns what a submitted form changes in an import's settings. */
export function changesOf(preview: DetailedPreview, fields: Fields): ImportPatch {
  const values = text(fields, 'invalid_values');
  return {
    ...(values === '' ? {} : { invalid_values: values as InvalidValues }),
    ...(preview.headers ? { mapping: mappingOf(preview, fields) } : {}),
  };
}

function mappingOf(preview: DetailedPreview, fields: Fields): Record<string, MappedField> {
  const entries = preview.columns.flatMap(({ header }, i): [string, MappedField][] => {
    if (preview.headers!.indexOf(header) !== i) return [];
    const shown = preview.mapping?.[header] ?? null;
    // The form does not have all columns of a very wide file. The others stay.
    const chosen =
      `column-${i}` in fields ? chosenFor(fields, i, [fieldOfMapped(shown) ?? '', customField(header)]) : shown;
    const isChanged = JSON.stringify(chosen) !== JSON.stringify(shown);
    // The import finds the others as the page does.
    return isChanged || preview.mapping_from?.[header] === 'given' ? [[header, chosen]] : [];
  });
  return Object.fromEntries(entries);
}

/** @param offered fields that can have line breaks */
function chosenFor(fields: Fields, i: number, offered: readonly string[]): MappedField {
  const [field, type] = [unchanged(text(fields, `column-${i}`), offered), text(fields, `type-${i}`)];
  if (field === '') return null;
  const isTyped = customKey(field) !== undefined && (customTypes as readonly string[]).includes(type);
  return isTyped ? { field, type: type as CustomType } : field;
}

/** Returns the field of the customer's own that is called like a column. */
export const customField = (header: string): string =>
  header.startsWith('custom_fields.') ? header : `custom_fields.${header}`;

/** Returns what changes how the whole file is read: then the columns of the form are no longer those of the file. */
export function sourceChangesOf(
  found: Import,
  { sheet, has_header: hasHeader }: Pick<ImportState, 'sheet' | 'has_header'>,
  fields: Fields,
): ImportPatch {
  const [encoding, chosen, header] = [text(fields, 'encoding'), text(fields, 'sheet'), text(fields, 'header')];
  const isOther = encoding !== '' && (encodingNamed(encoding) ?? encoding) !== found.encoding;
  return {
    ...(isOther ? { encoding } : {}),
    ...(chosen !== '' && chosen !== sheet ? { sheet: chosen } : {}),
    ...(header !== '' && (header === 'names') !== hasHeader ? { header: header === 'names' } : {}),
  };
}

/** Returns why an import with its current settings cannot succeed, as a whole or in any record. */
export const obstaclesTo = (found: Import, preview: ImportPreview): Fault[] => [
  ...preview.errors.filter(({ path }) => !path.startsWith('/records/')),
  ...missingFields(found, preview).map((field) => ({
    path: '',
    message: `no column is read as ${field}, which every new record needs`,
  })),
];

/** Returns fields, or groups of them, that every new record must have and to which no column is mapped. */
function missingFields(found: Import, { mapping }: ImportPreview): string[] {
  if (found.mode !== 'create' || !mapping) return [];
  const { create, needsOneOf = [] } = found.object === 'contacts' ? contactBatches : companyBatches;
  const covered = new Set(Object.values(mapping).map(fieldOfMapped));
  if (covered.has('_record')) return [];
  if (covered.has('full_name')) covered.add('first_name');
  const needed = [...(create.required ?? []).map((field) => [field]), ...needsOneOf];
  return needed.filter((group) => !group.some((field) => covered.has(field))).map((group) => group.join(' or '));
}
