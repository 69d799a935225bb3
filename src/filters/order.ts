import type { GivenOrder } from '../schemas/filters.ts';

interface OrderKey {
  field: string;
  direction: 'ASC' | 'DESC';
}

/** Most important first. Ties are sorted by id, descending. */
export type Order = readonly OrderKey[];

export const defaultOrder: Order = [{ field: 'created_at', direction: 'DESC' }];

/**
 * Returns the keys of a request's `order_by`.
 * @param given an order that is valid by its schema
 */
export const parseOrder = (given: GivenOrder | undefined): Order =>
  given === undefined ? defaultOrder : withoutIdle(keysOf(given) as OrderKey[]);

const keysOf = (given: GivenOrder) =>
  Array.isArray(given) ? given : Object.entries(given).map(([field, direction]) => ({ field, direction }));

/** Removes keys without effect: a repeated field, and all keys after the id, because ids are unique. */
function withoutIdle(keys: OrderKey[]): OrderKey[] {
  const kept = new Map<string, OrderKey>();
  for (const { field, direction } of keys) {
    if (!kept.has('id') && !kept.has(field)) kept.set(field, { field, direction });
  }
  return [...kept.values()];
}
