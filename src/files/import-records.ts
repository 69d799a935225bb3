// STUB of the interface that branch w-f builds.
import { companyFileFields, contactFileFields } from '../schemas/files.ts';
import { type Fault } from '../errors.ts';
import { columnNamed, type FileColumn } from './columns.ts';
import { itemOfCells } from './records.ts';
export interface ImportFile {
  object: 'contacts' | 'companies';
  mode: 'create' | 'update' | 'upsert';
  match?: string | null;
  format: 'csv' | 'ndjson';
  mapping?: Record<string, string | null> | null;
  ignoreUnknown: boolean;
}
export interface FilePosition {
  bytes: number;
  line: number;
}
export interface CsvLayout {
  separator: string;
  headers: string[];
  columns: (string | null)[];
  start: FilePosition;
}
export class FileRefused extends Error {}
export interface FileRecord {
  item: Record<string, unknown> | Fault[];
  original: string[];
  line: number;
  next: FilePosition;
}
async function text(chunks: AsyncIterable<Buffer>): Promise<string> {
  const all: Buffer[] = [];
  for await (const c of chunks) all.push(c);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(all));
  } catch {
    throw new FileRefused('the file is not valid UTF-8');
  }
}
export async function readLayout(file: ImportFile, chunks: AsyncIterable<Buffer>): Promise<CsvLayout | null> {
  if (file.format === 'ndjson') return null;
  const [first = ''] = (await text(chunks)).split('\n');
  if (first.trim() === '') throw new FileRefused('the file has no header line');
  const headers = first.trim().split(',');
  const fields = file.object === 'contacts' ? contactFileFields : companyFileFields;
  const columns = headers.map((h) => {
    const name = file.mapping && Object.hasOwn(file.mapping, h) ? file.mapping[h]! : h;
    if (name === null) return null;
    if (columnNamed(fields, name)) return name;
    if (file.ignoreUnknown) return null;
    throw new FileRefused(`the header ${h} names no field`);
  });
  if (file.match && !columns.includes(file.match)) throw new FileRefused(`the file has no column ${file.match}`);
  return { separator: ',', headers, columns, start: { bytes: Buffer.byteLength(first) + 1, line: 2 } };
}
export async function* readRecords(
  file: ImportFile,
  layout: CsvLayout | null,
  chunks: AsyncIterable<Buffer>,
  from: FilePosition,
): AsyncGenerator<FileRecord[]> {
  const body = await text(chunks);
  const end = from.bytes + Buffer.byteLength(body);
  const fields = file.object === 'contacts' ? contactFileFields : companyFileFields;
  let bytes = from.bytes,
    line = from.line,
    records: FileRecord[] = [];
  const used = (layout?.columns ?? []).map((c, i) => [c, i] as const).filter(([c]) => c !== null);
  const named = used.map(([c]) => columnNamed(fields, c!) as FileColumn);
  for (const one of body.split('\n')) {
    if (bytes >= end) break;
    bytes += Buffer.byteLength(one) + 1;
    line += 1;
    if (one.trim() === '') continue;
    const next = { bytes: Math.min(bytes, end), line };
    if (layout) {
      const cells = one.split(',');
      if (cells.length > layout.columns.length) {
        records.push({
          item: [{ path: '', message: 'more cells than the header' }],
          original: cells,
          line: line - 1,
          next,
        });
      } else {
        const { item, faults } = itemOfCells(
          named,
          used.map(([, i]) => (cells[i] === undefined ? undefined : { text: cells[i], isQuoted: false })) as never,
        );
        records.push({ item: faults.length > 0 ? faults : item, original: cells, line: line - 1, next });
      }
    } else {
      let item: any; /* eslint-disable-line */
      try {
        item = JSON.parse(one);
      } catch {
        item = [{ path: '', message: 'is not valid JSON' }];
      }
      if (typeof item !== 'object' || item === null || (Array.isArray(item) && !item[0]?.message))
        item = [{ path: '', message: 'is no JSON object' }];
      records.push({ item, original: [one], line: line - 1, next });
    }
    if (records.length === 1000) {
      yield records;
      records = [];
    }
  }
  if (records.length) yield records;
}
const cell = (t: string) => (/[",\r\n]/.test(t) ? `"${t.replaceAll('"', '""')}"` : t);
export const errorsHeader = (layout: CsvLayout | null): string =>
  [...(layout?.headers ?? ['_record']), '_line', '_error'].map(cell).join(',') + '\r\n';
export const errorsLine = (layout: CsvLayout | null, record: FileRecord, message: string): string =>
  [
    ...record.original,
    ...Array(Math.max(0, (layout?.headers.length ?? 1) - record.original.length)).fill(''),
    String(record.line),
    message,
  ]
    .map(cell)
    .join(',') + '\r\n';
