import { type Locked, type Transaction, originOf } from '../../database/db.ts';
import { validationFailed, type Fault } from '../../errors.ts';
import { activitySource, foldRecord, canonicalInstant } from '../../filters/columns.ts';
import { constant, type FragmentMaker } from '../../filters/sql.ts';
import { Activity, activityFields, type ActivityCreate, type ActivityPatch } from '../../schemas/activities.ts';
import { blankOf } from '../../schemas/wire.ts';
import type { EventActor } from '../../schemas/events.ts';
import { activityFileFields } from '../../schemas/files.ts';
import { recordReads } from './record-pages.ts';
import { errorOfMissing, lockReferencesOf, type Reference } from '../records/references.ts';
import { activityTable, insertRows, type WrittenTable } from '../records/batch-rows.ts';
import { inOrderOf } from '../records/finders.ts';
import { addDeletions, recordWrites, writeRows, type Writing } from '../records/record-writes.ts';

type ActivityColumns = Pick<Activity, (typeof activityFields)[number]>;

const shown = `
  a.id,
  ${activityFields.map((column) => `a.${column}`).join(', ')},
  a.created_by,
  a.created_at,
  a.updated_at`;
const projection = (sql: FragmentMaker) => constant(sql, shown);

export const {
  find: findActivities,
  list: listActivities,
  count: countActivities,
  export: exportActivities,
} = recordReads<Activity>({ source: activitySource, projection, fields: activityFileFields, title: 'Activities' });

export const findNotes = (
  sql: Transaction,
  customerId: string,
  member: 'contact_id' | 'company_id',
  notes: readonly { id: string; body: string }[],
): Promise<{ id: string; body: string }[]> => sql`
  select ${sql(member)} as id, body
  from activities
  where customer_id = ${customerId}
    and ${sql(member)} = any(${notes.map(({ id }) => id)}::uuid[])
    and body = any(${notes.map(({ body }) => body)}::text[])
    and type = 'note'
    and hidden_at is null`;

const nouns = {
  contact_id: 'contact',
  company_id: 'company',
  opportunity_id: 'opportunity',
  assigned_to: 'user',
} as const;

export function referencesOf(body: Readonly<Record<string, unknown>>): Reference[] {
  return Object.entries(nouns).flatMap(([member, noun]) =>
    typeof body[member] === 'string' ? [{ noun, id: body[member], path: `/${member}` }] : [],
  );
}

/** Columns of a new activity. The empty `occurred_at` stands for the time of the insert. */
const blank: ActivityColumns = { ...blankOf(Activity, activityFields), type: 'note' };

const instants = ['due_at', 'done_at', 'occurred_at'] as const;

function patched(body: ActivityPatch, stored: ActivityColumns = blank): ActivityColumns {
  const columns = { ...stored, ...body };
  for (const name of instants) if (body[name]) columns[name] = canonicalInstant(body[name]);
  const faults: Fault[] = [];
  if (columns.title.trim() === '' && columns.body.trim() === '')
    faults.push({ path: givenOf(body, ['title', 'body']), message: 'must not be empty if the body is' });
  if (columns.contact_id === null && columns.company_id === null && columns.opportunity_id === null)
    faults.push({ path: givenOf(body, holders), message: 'a contact, a company or an opportunity is needed' });
  if (columns.type !== 'task')
    for (const name of ['due_at', 'done_at'] as const) {
      if (body[name]) faults.push({ path: `/${name}`, message: 'only a task has such a time' });
      columns[name] = null;
    }
  if (faults.length > 0) throw validationFailed(faults);
  return columns;
}

const holders = ['contact_id', 'company_id', 'opportunity_id'] as const;
const isHolder = (name: string): boolean => (holders as readonly string[]).includes(name);

const givenOf = (body: object, names: readonly string[]): string =>
  `/${names.find((name) => name in body) ?? names[0]}`;

interface ActivityRow extends ActivityColumns {
  created_by: EventActor | null;
  folded: object;
}

/**
 * Columns that an insert or update of activities sets. A new reference clears the id of the deleted record to which the
 * activity referred before.
 */
const written: WrittenTable<ActivityRow> = {
  name: 'activities',
  columns: [...activityFields, 'created_by', 'folded'],
  unassigned: ['created_by'],
  computedAssignments: (sql) =>
    constant(
      sql,
      holders.map((name) => `deleted_${name} = case when given.${name} is null then r.deleted_${name} end`).join(', '),
    ),
};

async function write(writing: Writing<ActivityColumns>): Promise<void> {
  const { sql, transaction, items } = writing;
  const undated = items.filter(({ columns }) => columns?.occurred_at === '');
  if (undated.length > 0) {
    const [{ now }] = await sql<[{ now: string }]>`select statement_timestamp() as now`;
    for (const { columns } of undated) columns!.occurred_at = now;
  }
  const { actor: created_by } = originOf(transaction);
  await writeRows(writing, 'activity', written, (columns) => ({
    ...columns,
    created_by,
    folded: foldRecord(activitySource, columns),
  }));
}

// The journal keeps references to records that were deleted before. So the undo gives the activity back to them, and the
// purge of a contact finds it.
const removedColumns = activityFields
  .map((name) => (isHolder(name) ? `coalesce(${name}, deleted_${name}) as ${name}` : name))
  .join(', ');

/**
 * Functions that write activities. By default, a new activity is a note and happens now. An update to a type other than
 * `task` clears the times that only tasks have. An activity without a text, without a record, or with a time that only
 * tasks have fails with `validation_failed`.
 */
export const activityWrites = recordWrites<ActivityColumns, Activity, ActivityCreate, ActivityPatch>({
  ...activityTable,
  lock: (sql, customerId, ids) => sql<Locked<ActivityColumns>[]>`
    select id, ${sql(activityFields)}
    from activities
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])
      and hidden_at is null
    order by id
    for update`,
  find: findActivities,
  prepare: async (writing) => {
    const { sql, customerId, items } = writing;
    const missing = await lockReferencesOf(sql, customerId, items, referencesOf);
    return {
      errorOf: (item) => errorOfMissing(missing.get(item)),
      patched,
      write: () => write(writing),
    };
  },
  remove: async ({ sql, customerId, deferred }, removed) => {
    const ids = removed.map(({ id }) => id);
    const rows = await sql<(ActivityColumns & { id: string; created_by: EventActor })[]>`
      delete from activities
      where customer_id = ${customerId}
        and id = any(${ids}::uuid[])
      returning id, ${constant(sql, removedColumns)}, created_by`;
    addDeletions(deferred, 'activity', inOrderOf(ids, rows));
  },
});

/**
 * Restores deleted activities. References to records that are still deleted stay empty until those are restored too.
 * Leaves out activities if no record to which they referred exists.
 * @param deleted the columns that are not empty
 * @param missing ids of the records that do not exist
 * @returns the ids of the restored activities
 */
export async function restoreActivities(
  sql: Transaction,
  customerId: string,
  deleted: readonly (Partial<ActivityColumns> & { id: string; created_by?: EventActor })[],
  missing: ReadonlySet<string>,
): Promise<Set<string>> {
  const rows = deleted.map(({ id, created_by = null, ...values }) => {
    const kept = Object.fromEntries(activityFields.map((name) => [name, values[name] ?? blank[name]]));
    const columns = kept as unknown as ActivityColumns;
    const left = { deleted_contact_id: null, deleted_company_id: null, deleted_opportunity_id: null };
    for (const name of [...holders, 'assigned_to'] as const) {
      if (columns[name] === null || !missing.has(columns[name])) continue;
      if (name !== 'assigned_to') Object.assign(left, { [`deleted_${name}`]: columns[name] });
      columns[name] = null;
    }
    return { id, ...columns, ...left, created_by, folded: foldRecord(activitySource, columns) };
  });
  // A row may still be there, hidden with a record to which it was moved since.
  const hidden = await sql<{ id: string }[]>`
    select id
    from activities
    where customer_id = ${customerId}
      and id = any(${rows.map(({ id }) => id)}::uuid[])`;
  const taken = new Set(hidden.map(({ id }) => id));
  const restored = rows.filter((row) => !taken.has(row.id) && holders.some((name) => row[name] !== null));
  const left = holders.map((name) => `deleted_${name}` as const);
  const table = { ...written, columns: ['id', ...written.columns, ...left] } as WrittenTable<(typeof rows)[number]>;
  return new Set<string>(await insertRows(sql, customerId, table, restored, (row) => ({ ...row })));
}
