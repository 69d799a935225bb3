import type { Database } from '../../database/db.ts';
import type { ExportedRecords } from '../../files/open-export.ts';
import type { Source } from '../../filters/columns.ts';
import { parseRecordQuery, type ListRequest } from '../../filters/record-query.ts';
import type { Fragment, FragmentMaker } from '../../filters/sql.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import type { Metadata } from '../../schemas/base/wire.ts';
import { countRecords, readAllRecords, readCustomKeys, readRecordPage } from './record-pages.ts';
import { listDeclared } from '../records/custom-fields.ts';
import type { RecordPage } from '../records/paging.ts';

type Selection = Pick<ListRequest, 'filters' | 'order_by'>;

interface Shown extends Pick<ExportedRecords, 'fields' | 'title'> {
  source: Source;
  /** SQL columns of a record, as responses show it. */
  projection: (sql: FragmentMaker, customerId: string) => Fragment;
  /** SQL columns of a record in a list, if these are others. */
  listed?: (sql: FragmentMaker, customerId: string) => Fragment;
  /** SQL columns of a record in a file, if these are others. */
  exported?: (sql: FragmentMaker, customerId: string) => Fragment;
  /** The same, with the names of a contact's lists. */
  withLists?: (sql: FragmentMaker, customerId: string) => Fragment;
}

export const recordReads = <Listed extends object>({
  source,
  projection,
  listed = projection,
  exported = projection,
  withLists = exported,
  fields,
  title,
}: Shown) => ({
  list: (db: Database, customerId: string, request: ListRequest): Promise<RecordPage<Listed>> =>
    readRecordPage(db, parseRecordQuery(source, customerId, request), (sql) => listed(sql, customerId)),

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

  /** Returns the number of records that match the filters, or `max` + 1 if more than `max` match. */
  countUpTo: (db: Database, customerId: string, filters: GivenFilters, max: number): Promise<number> =>
    countRecords(db, parseRecordQuery(source, customerId, { filters }), max),

  export: (db: Database, customerId: string, request: Selection): ExportedRecords => {
    const query = parseRecordQuery(source, customerId, request);
    return {
      fields,
      title,
      read: (hasLists) => readAllRecords(db, query, (sql) => (hasLists ? withLists : exported)(sql, customerId)),
      count: () => countRecords(db, query),
      readKeys: async (max) => {
        const { table } = source;
        if (table !== 'contacts' && table !== 'companies') return [];
        const [keys, declared] = await Promise.all([
          readCustomKeys(db, query, max),
          db.lookup((sql) => listDeclared(sql, customerId, table)),
        ]);
        const labels = new Map(declared.map(({ key, label }) => [key, label]));
        return keys.map((key) => ({ key, label: labels.get(key) ?? key }));
      },
    };
  },
});
