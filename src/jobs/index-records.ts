import { addTerms, findCustomersWithoutTerms, indexedSources } from '../queries/records/search-terms.ts';
import type { JobContext } from './handler.ts';

/** Records that one transaction writes and locks. */
const batchSize = 100;
const customersAtOnce = 1_000;
const firstId = '00000000-0000-0000-0000-000000000000';

/**
 * Computes folded texts and terms of records that an older version of this program wrote without them.
 * @param maxMs time limit (ms); the next call resumes with the remaining records
 * @returns the number of batches written
 */
export async function indexRecords(
  { db, stopping }: Pick<JobContext, 'db' | 'stopping'>,
  maxMs: number,
  sources = indexedSources,
): Promise<number> {
  const end = performance.now() + maxMs;
  const isOver = (): boolean => stopping.aborted || performance.now() > end;
  let batches = 0;
  for (const source of sources) {
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
