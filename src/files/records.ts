import { maxFaults, type Fault } from '../errors.ts';
import { pointerTo } from '../text/json-pointer.ts';
import { readCell, type Cell } from './cells.ts';
import type { FileColumn } from './columns.ts';
import { InvalidCell } from './values/read-value.ts';

type Json = Record<string, unknown>;

/** Returns what a file contains for a record. Undefined if there is no value, or the export omits it (null, `""`). */
export function valueOf({ shown: [field, part], isNullable, mayBeEmpty }: FileColumn, record: Json): unknown {
  const whole = record[field];
  const value = part === undefined ? whole : ownMember(whole as Json, part);
  if (value === null && !isNullable) return undefined;
  return value === '' && !mayBeEmpty ? undefined : value;
}

const ownMember = (object: Json, name: string): unknown => (Object.hasOwn(object, name) ? object[name] : undefined);

/** Returns an object in the form of a request body. */
export function itemOfRecord(columns: readonly FileColumn[], record: Json): Json {
  const values = columns.map((column) => [column, valueOf(column, record)] as const);
  return assemble(values.filter(([, value]) => value !== undefined));
}

/**
 * Returns a request body, not validated yet, without missing and empty cells (`item`), and a fault for each unreadable
 * cell, at most `maxFaults` + 1.
 */
export function itemOfCells(
  columns: readonly FileColumn[],
  cells: readonly (Cell | undefined)[],
): { item: Json; faults: Fault[] } {
  const values: [FileColumn, unknown][] = [];
  const faults: Fault[] = [];
  for (const [i, column] of columns.entries()) {
    try {
      const value = cells[i] && readCell(column.type, cells[i]);
      if (value !== undefined) values.push([column, value]);
    } catch (error) {
      if (!(error instanceof InvalidCell)) throw error;
      faults.push({ path: pointerTo(column.item.filter((token) => token !== undefined)), message: error.message });
      if (faults.length > maxFaults) break;
    }
  }
  const item = assemble(values);
  for (const field of ['company', 'company_id']) withoutNullParts(item, field);
  return { item, faults };
}

/** The value of a column such as `company.id` is put in a nested object. */
function assemble(values: (readonly [FileColumn, unknown])[]): Json {
  const item: Json = {};
  for (const [
    {
      item: [field, part],
    },
    value,
  ] of values) {
    if (part === undefined) item[field] = value;
    else ((item[field] ??= {}) as Json)[part] = value;
  }
  return item;
}

/** Removes null values from a company. If all are null, sets it to null, which means no company. */
function withoutNullParts(item: Json, field: string): void {
  const company = item[field];
  if (typeof company !== 'object' || company === null) return;
  const given = Object.entries(company).filter(([, value]) => value !== null);
  item[field] = given.length > 0 ? Object.fromEntries(given) : null;
}

/** Removes a value from an item. Of a custom field only its key; of other fields that have parts all, because they belong together. */
export function removeValue(item: Json, [field = '', part, rest]: readonly string[]): void {
  const whole = item[field];
  const isKey = field === 'custom_fields' && part !== undefined && rest === undefined;
  if (!isKey || typeof whole !== 'object' || whole === null) return void delete item[field];
  const { [part]: _, ...others } = whole as Json;
  if (Object.keys(others).length > 0) item[field] = others;
  else delete item[field];
}
