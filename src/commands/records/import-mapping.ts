import { createInterface } from 'node:readline/promises';
import type { Database } from '../../database/db.ts';
import type { Fault } from '../../errors.ts';
import { previewImport, type DetailedPreview } from '../../jobs/imports/preview-import.ts';
import { cancelImport, startUploaded } from '../../jobs/imports/start-import.ts';
import { allImports, requireImport } from '../../queries/imports/imports.ts';
import { fieldOfMapped } from '../../schemas/imports.ts';
import type { Progress } from '../shell/progress.ts';

export const canAsk = (isStandardInput: boolean): boolean =>
  !isStandardInput && process.stdin.isTTY && process.stderr.isTTY;

/**
 * Shows how the columns of a file are read, and starts its import, if the user agrees. Does nothing if an earlier run of
 * the command has started it.
 * @throws Error if the file cannot be imported so, or the user does not agree; the import is cancelled then
 */
export async function showAndStart(
  db: Database,
  customerId: string,
  id: string,
  { asks, progress }: { asks: boolean; progress: Progress },
): Promise<void> {
  const ref = { id, visible: allImports };
  const { status } = await db.lookup((sql) => requireImport(sql, customerId, id, allImports));
  if (status !== 'UPLOADED') return;
  const preview = await previewImport(db, { customerId }, ref);
  for (const line of linesOf(preview)) await progress.line(line);
  for (const warning of preview.warnings.filter(isShown)) await progress.line(`Warning: ${warningText(warning)}`);
  const fault = preview.errors.find(({ path }) => !path.startsWith('/records/'));
  if (!fault && (!asks || (await isAgreed()))) return db.transaction((sql) => startUploaded(sql, customerId, ref));
  await db.transaction((sql) => cancelImport(sql, customerId, ref));
  throw new Error(fault ? `The file cannot be imported: ${fault.message}` : 'Nothing was imported');
}

/** The table of columns shows which are left out. */
const isShown = ({ path }: Fault): boolean => !path.startsWith('/mapping/');

function warningText({ path, message }: Fault): string {
  const [, record, field] = /^\/records\/(\d+)\/(.*)$/.exec(path) ?? [];
  return record === undefined ? message : `record ${Number(record) + 1}, ${field}: ${message}`;
}

function linesOf({ columns, mapping, mapping_from: from }: DetailedPreview): string[] {
  const rows = columns.map(({ header, samples, type }) => {
    const field = fieldOfMapped(mapping?.[header] ?? null);
    const read = field === null ? '(left out)' : type ? `${field} (${type})` : field;
    return [header, read, from?.[header] ?? '', samples[0] ?? ''].map((text) => text.replaceAll(/\s+/g, ' '));
  });
  const all = [['COLUMN', 'FIELD', 'FROM', 'FIRST VALUE'], ...rows];
  const widths = [0, 1, 2].map((i) => Math.min(40, Math.max(...all.map((row) => row[i]!.length))));
  return all.map((row) =>
    row
      .map((text, i) => text.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

async function isAgreed(): Promise<boolean> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await lines.question('Import the file so? [y/N] ')).trim());
  } finally {
    lines.close();
  }
}
