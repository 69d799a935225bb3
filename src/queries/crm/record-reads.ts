import type { Database } from '../../database/db.ts';
import type { ExportedRecords } from '../../files/open-export.ts';
import type { Source } from '../../filters/columns.ts';
import { parseRecordQuery, type ListRequest } from '../../filters/record-query.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import type { Metadata } from '../../schemas/base/wire.ts';
import { countRecords, readAllRecords, readCustomKeys, readRecordPage } from './record-pages.ts';
import type { RecordPage } from '../records/paging.ts';

type Selection = Pick<ListRequest, 'filters' | 'order_by'>;

interface Shown extends Pick<ExportedRecords, 'fields' | 'title'> {
  source: Source;
  /** SQL columns of a record, as responses show it. */
  projection: (sql: FragmentMaker) => Fragment;
  /** The same, with the names of a contact's lists. */
  withLists?: (sql: FragmentMaker, customerId: string) => Fragment;
}

export const recordReads = <Row extends object>({ source, projection, withLists, fields, title }: Shown) => ({
  list: (db: Database, customerId: string, request: ListRequest): Promise<RecordPage<Row>> =>
    readRecordPage(db, parseRecordQuery(source, customerId, request), projection),

  /** Returns the number of records that match the request, and the number of pages: 0 without records. */
  count: async (db: Database, customerId: string, request: ListRequest): Promise<Metadata> => {
    const query = parseRecordQuery(source, customerId, request);
    const total = await countRecords(db, query);
    const { limit, offset } = query;
    return {
      pagination: {
        current_page: offset / limit + 1,
        total_records: total,
        total_pages: Math.ceil(total / limit),
      },
    };
  },

  /** Returns the number of records that match the filters, or `most` + 1 if more than `most` match. */
  countUpTo: (db: Database, customerId: string, filters: unknown, most: number): Promise<number> =>
    countRecords(db, parseRecordQuery(source, customerId, { filters }), most),

  export: (db: Database, customerId: string, request: Selection): ExportedRecords => {
    const query = parseRecordQuery(source, customerId, request);
    const columns = withLists ? (sql: FragmentMaker) => withLists(sql, customerId) : projection;
    return {
      fields,
      title,
      read: (hasLists) => readAllRecords<Row>(db, query, hasLists ? columns : projection),
      count: () => countRecords(db, query),
      readKeys: (most) => readCustomKeys(db, query, most),
    };
  },
});
