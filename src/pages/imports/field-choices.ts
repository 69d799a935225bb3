import { fileFields } from '../../jobs/imports/start-import.ts';
import { customKey } from '../../schemas/filters.ts';
import { importableNames } from '../../schemas/files.ts';
import type { ImportObject, MappingOrigin } from '../../schemas/imports.ts';
import { fieldWord } from '../base/words.ts';

/** Returns what people call a field of a file. */
export const fieldLabel = (object: ImportObject, field: string): string =>
  customKey(field) === undefined ? fieldWord(object, field) : `Your own field “${fieldWord(object, field)}”`;

/** The fields that a column can be read as, without custom fields, in the order in which people look for them. */
export function fieldsToChoose(object: ImportObject): string[] {
  const names = importableNames(fileFields[object]);
  if (object === 'companies') return names;
  return [
    'full_name',
    ...names.filter((name) => name !== 'company.id'),
    'company.name',
    'company.industry',
    'company.id',
  ];
}

export const originLabels: Record<MappingOrigin, string> = {
  given: 'chosen',
  name: 'its name',
  remembered: 'your last import',
  guess: 'guessed',
};
