import type { Transaction } from '../db.ts';
import type { Fill } from '../queries/list-fills.ts';
import { enqueue } from './queue.ts';

/** Has a list filled by a worker, once the transaction commits. */
export async function startFill(sql: Transaction, fill: Fill | undefined): Promise<void> {
  if (fill) await enqueue(sql, 'fill-list', { ...fill });
}
