import { readXlsx } from 'hucre/xlsx';

/** The first sheet of an Excel workbook, as a library that others wrote reads it. */
export interface ReadSheet {
  name: string;
  frozenRows: number | undefined;
  /** Of the first row: whether each cell is bold. */
  boldHeaders: boolean[];
  headers: string[];
  /** Each row below the header, by header. Empty cells are left out. */
  records: Record<string, string | number | boolean | Date>[];
}

export async function readSheet(file: Uint8Array): Promise<ReadSheet> {
  const { sheets } = await readXlsx(file, { readStyles: true });
  const [sheet] = sheets;
  const [header = [], ...rows] = sheet!.rows;
  const headers = header.map(String);
  return {
    name: sheet!.name,
    frozenRows: sheet!.freezePane?.rows,
    boldHeaders: headers.map((_, i) => sheet!.cells?.get(`0,${i}`)?.style?.font?.bold === true),
    headers,
    records: rows.map((row) =>
      Object.fromEntries(
        row.flatMap((value, i) => (value === null || value === undefined ? [] : [[headers[i]!, value]])),
      ),
    ),
  };
}
