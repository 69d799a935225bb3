import { posix } from 'node:path';
import { FileRefused } from '../file-refused.ts';
import {
  digitsOfFormat,
  isBuiltInDate,
  isBuiltInTime,
  isDateFormat,
  isTimeFormat,
  type Formats,
} from './cell-values.ts';
import { maxIndexBytes } from './limits.ts';
import { readXml, type XmlHandler } from './xml.ts';
import type { Zip } from './zip.ts';

interface Sheet {
  name: string;
  isHidden: boolean;
  /** Path of its part. */
  part: string;
}

export interface Workbook {
  zip: Zip;
  /** In order. */
  sheets: Sheet[];
  from1904: boolean;
  sharedStrings: string | undefined;
  styles: string | undefined;
}

interface Relation {
  id: string;
  /** The last word of its type, such as `worksheet`. */
  type: string;
  part: string;
}

/** @throws FileRefused if the file is no workbook */
export async function readWorkbook(zip: Zip): Promise<Workbook> {
  const main = (await relationsOf(zip, '')).find(({ type }) => type === 'officeDocument')?.part;
  if (main === undefined || zip.sizeOf(main) === undefined)
    throw new FileRefused('is a ZIP file, but not an XLSX file', undefined, 'send an XLSX file, or CSV');
  const relations = await relationsOf(zip, main);
  const sheets: Sheet[] = [];
  let from1904 = false;
  await readIndex(zip, main, {
    open(name, attributes) {
      if (name === 'workbookPr') from1904 = isTrue(attributes['date1904']);
      if (name !== 'sheet') return;
      const id = Object.entries(attributes).find(([key]) => key.endsWith(':id'))?.[1];
      const found = relations.find((relation) => relation.id === id && relation.type === 'worksheet');
      if (found && zip.sizeOf(found.part) !== undefined)
        sheets.push({ name: attributes['name'] ?? '', isHidden: isHidden(attributes['state']), part: found.part });
    },
  });
  // Without its texts or styles, a file would be read as another one.
  const partOf = (wanted: string): string | undefined => {
    const part = relations.find(({ type }) => type === wanted)?.part;
    if (part !== undefined && zip.sizeOf(part) === undefined)
      throw new FileRefused(
        `is not an XLSX file, or damaged: it lacks the part ${part}`,
        undefined,
        'open it in a spreadsheet program and save it again',
      );
    return part;
  };
  return { zip, sheets, from1904, sharedStrings: partOf('sharedStrings'), styles: partOf('styles') };
}

const isHidden = (state: string | undefined): boolean => state === 'hidden' || state === 'veryHidden';
const isTrue = (text: string | undefined): boolean => text === '1' || text === 'true';

/** Reads how styles show a number. */
export async function readFormats({ zip, styles, from1904 }: Workbook): Promise<Formats> {
  const [isDate, isTime, digits]: [boolean[], boolean[], number[]] = [[], [], []];
  if (styles === undefined) return { isDate, isTime, digits, from1904 };
  const own = new Map<string, string>();
  let isCellStyle = false;
  await readIndex(zip, styles, {
    open(name, attributes) {
      if (name === 'numFmt') own.set(attributes['numFmtId'] ?? '', attributes['formatCode'] ?? '');
      else if (name === 'cellXfs') isCellStyle = true;
      else if (name === 'xf' && isCellStyle) {
        const id = attributes['numFmtId'] ?? '0';
        const code = own.get(id);
        isDate.push(code === undefined ? isBuiltInDate(Number(id)) : isDateFormat(code));
        isTime.push(code === undefined ? isBuiltInTime(Number(id)) : isTimeFormat(code));
        digits.push(digitsOfFormat(code ?? ''));
      }
    },
    close(name) {
      if (name === 'cellXfs') isCellStyle = false;
    },
  });
  return { isDate, isTime, digits, from1904 };
}

/** @param part the part whose relations these are; `''`: the whole file */
async function relationsOf(zip: Zip, part: string): Promise<Relation[]> {
  const folder = posix.dirname(`/${part}`);
  const list = posix.join(folder, '_rels', `${posix.basename(part)}.rels`).slice(1);
  const relations: Relation[] = [];
  if (zip.sizeOf(list) === undefined) return relations;
  await readIndex(zip, list, {
    open(name, { Id = '', Type = '', Target = '', TargetMode }) {
      if (name !== 'Relationship' || TargetMode === 'External') return;
      relations.push({ id: Id, type: posix.basename(Type), part: posix.resolve(folder, Target).slice(1) });
    },
  });
  return relations;
}

function readIndex(zip: Zip, part: string, handler: XmlHandler): Promise<void> {
  if (zip.sizeOf(part)! > maxIndexBytes)
    throw new FileRefused('is not an XLSX file: the list of its sheets or styles is too large');
  return readXml(zip.open(part), handler);
}
