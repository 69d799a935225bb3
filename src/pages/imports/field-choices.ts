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
    'company.domain',
    'company.external_id',
    'company.id',
  ];
}

/** Returns a message about a file with words for the names of fields in it, but for those that are words, such as `gender`. */
export function inWords(object: ImportObject, message: string): string {
  const texts = message.split(/("(?:[^"\\]|\\.)*")/); // values are in quotes
  const names = new RegExp(
    String.raw`(?<![\w.])(?:${fieldsToChoose(object)
      .filter((name) => /[._]/.test(name))
      .join('|')})(?![\w.]*\w)`,
    'g',
  );
  return texts.map((part, i) => (i % 2 ? part : part.replace(names, (name) => fieldWord(object, name)))).join('');
}

export const originLabels: Record<MappingOrigin, string> = {
  given: 'as chosen',
  name: 'by its name',
  remembered: 'as in your last import',
  guess: 'guessed',
};
