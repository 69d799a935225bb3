import type { Fault } from '../errors.ts';
import type { FilterFields } from '../schemas/filters.ts';
import { companySource, contactSource } from './columns.ts';
import { readOrder, type Order } from './order.ts';

const sources = [contactSource, companySource];

/**
 * Parses `order_by` of an export: exactly one sort key, on a field with an index. Do not use the keys if there are
 * faults.
 */
export function readIndexedOrder(
  fields: FilterFields,
  input: unknown,
  pointer = '/order_by',
): { order: Order; faults: Fault[] } {
  const { order, faults } = readOrder(fields, input, pointer);
  if (faults.length > 0) return { order, faults };
  // With an index, each page costs the same, however many records come before it.
  const indexed = ['created_at', ...sources.find((source) => source.fields === fields)!.indexed];
  // A key that is given twice counts as two, although it sorts like one.
  const keys = Object.keys(input ?? { created_at: 'DESC' }).length;
  if (keys === 1 && indexed.includes(order[0]!.field)) return { order, faults: [] };
  return { order, faults: [{ path: pointer, message: `must have one key; allowed are ${indexed.join(', ')}` }] };
}
