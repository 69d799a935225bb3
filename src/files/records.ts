import { maxFaults, type Fault } from '../errors.ts';
import { pointerTo } from '../text/json-pointer.ts';
import { InvalidCell, readCell, type Cell } from './cells.ts';
import type { FileColumn } from './columns.ts';

type Json = Record<string, unknown>;

/** Returns the value that a record has in a column of a file; undefined if the file leaves it out. */
export function valueOf({ shown: [field, part], isNullable, mayBeEmpty }: FileColumn, record: Json): unknown {
  const whole = record[field];
  const value = part === undefined ? whole : ownMember(whole as Json, part);
  if (value === null && !isNullable) return undefined;
  return value === '' && !mayBeEmpty ? undefined : value;
}

const ownMember = (object: Json, name: string): unknown => (Object.hasOwn(object, name) ? object[name] : undefined);

/** Returns a record as an item: an object with the given columns, in the form of a request body. */
export function itemOfRecord(columns: readonly FileColumn[], record: Json): Json {
  const values = columns.map((column) => [column, valueOf(column, record)] as const);
  return assemble(values.filter(([, value]) => value !== undefined));
}

/**
 * Reads the cells of one CSV record. Returns the item, which is a request body that is not validated yet, and a fault
 * for each cell that cannot be read. Stops after `maxFaults` + 1 faults. The item contains nothing for missing and empty
 * cells.
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
  return { item: withoutNullCompany(assemble(values)), faults };
}

/** Returns an object with these values. Values of columns such as `company.id` are in a nested object. */
function assemble(values: (readonly [FileColumn, unknown])[]): Json {
  const item: Json = {};
  for (const [
    {
      item: [field, part],
    },
    value,
  ] of values) {
    if (part === undefined) item[field] = value;
    // A custom field may be called `__proto__`.
    else
      Object.defineProperty((item[field] ??= {}), part, {
        value,
        enumerable: true,
        configurable: true,
        writable: true,
      });
  }
  return item;
}

/**
 * Replaces the company of an item by null (no company) if all its parts are null. Otherwise removes the parts that are
 * null.
 */
function withoutNullCompany(item: Json): Json {
  const { company } = item;
  if (typeof company !== 'object' || company === null) return item;
  const given = Object.entries(company).filter(([, value]) => value !== null);
  return { ...item, company: given.length > 0 ? Object.fromEntries(given) : null };
}
