import { addTerms, findCustomersWithoutTerms, indexedSources } from '../queries/search-terms.ts';
import type { JobContext } from './handler.ts';

/** Number of records that one transaction writes. They are locked until it ends. */
const batchSize = 100;
/** Maximum number of customers that one query returns. */
const customersAtOnce = 1_000;
const firstId = '00000000-0000-0000-0000-000000000000';

/**
 * Adds search terms to records that an older version of this program wrote without them. Until then, searches of the
 * customer read each of these records. Usually only an upgrade leaves such records.
 * @param maxMs time limit (ms); the next call does the rest
 * @returns the number of batches written
 */
export async function indexRecords(
  { db, stopping }: Pick<JobContext, 'db' | 'stopping'>,
  maxMs: number,
): Promise<number> {
  const end = performance.now() + maxMs;
  const isOver = (): boolean => stopping.aborted || performance.now() > end;
  let batches = 0;
  for (const source of indexedSources) {
    for (let customer = firstId; ;) {
      const customers = await db.search((sql) =>
        findCustomersWithoutTerms(sql, source, { after: customer, limit: customersAtOnce }),
      );
      for (customer of customers) {
        for (let after: string | undefined = firstId; after !== undefined; batches += 1) {
          if (isOver()) return batches;
          const position: string = after;
          after = await db.transaction((sql) => addTerms(sql, customer, source, { after: position, size: batchSize }));
        }
      }
      if (customers.length < customersAtOnce) break;
    }
  }
  return batches;
}
