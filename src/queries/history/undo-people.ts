import type { LockedId, Transaction } from '../../database/db.ts';
import { liveCompanies, constant } from '../../filters/sql.ts';
import { companyFields } from '../../schemas/companies.ts';
import { contactFields } from '../../schemas/contacts.ts';
import { fold } from '../../text/fold.ts';
import {
  blankCompany,
  companyRow,
  lockCompanyRows,
  removeCompanies,
  serviceColumns as companyServiceColumns,
  wholeCompanies,
  type WholeCompany,
} from '../crm/companies.ts';
import {
  blank,
  contactRow,
  lockContactRows,
  removeContacts,
  serviceColumns as contactServiceColumns,
  wholeContacts,
  type WholeContact,
} from '../crm/contacts.ts';
import { isSame } from '../records/journal.ts';
import { companyTable, contactTable, insertRows, updateRows } from '../records/batch-rows.ts';
import { lockBulk } from '../records/deferred-writes.ts';
import { forgetMerged, lostIdOf, takeBackMerged } from '../records/merged-records.ts';
import { findRefused, findTaken } from '../records/references.ts';
import { reattachActivities } from '../crm/links.ts';
import { isOfChange, type Effect, type Values } from './effects.ts';
import { readLater } from './history.ts';
import { findLaterMerges } from './undo-state.ts';
import * as undo from './undo-links.ts';

interface People {
  records: typeof contactTable | typeof companyTable;
  serviceColumns: readonly string[];
  blank: Values;
  lock: (sql: Transaction, customerId: string, ids: readonly string[]) => Promise<(Values & { id: LockedId })[]>;
  remove: (undoing: undo.Undoing, ids: readonly LockedId[]) => Promise<void>;
  findInUse: (undoing: undo.Undoing, ids: readonly LockedId[]) => Promise<Set<string>>;
  update: (undoing: undo.Undoing, rows: readonly (Values & { id: LockedId })[]) => Promise<void>;
  restore: (undoing: undo.Undoing, rows: readonly (Values & { id: string })[]) => Promise<Set<string>>;
}

export const undoContacts = (undoing: undo.Undoing): Promise<Map<string, undo.Outcome>> =>
  undoPeople(undoing, contacts);

export const undoCompanies = (undoing: undo.Undoing): Promise<Map<string, undo.Outcome>> =>
  undoPeople(undoing, companies);

// What was created goes first and what was deleted comes last, so that an external id is free when its record gets it
// back: a merge gives that of a merged record to the one that stays.
async function undoPeople(undoing: undo.Undoing, people: People): Promise<Map<string, undo.Outcome>> {
  const { sql, customerId, effects, deferred } = undoing;
  const { kind, table } = people.records;
  const valuesOf = (name: string): string[] =>
    effects.flatMap(({ before }) => (before[name] as string | null | undefined) ?? []);
  await lockBulk(sql, customerId);
  const companiesBefore = [...valuesOf('company_id'), ...valuesOf('deleted_company_id')];
  const companyIds = new Set(await undo.lockPresent(sql, customerId, 'companies', companiesBefore));
  const liveIds = await findLiveCompanies(sql, customerId, [...companyIds]);
  const ids = effects.map(({ id }) => id);
  const locked = new Map((await people.lock(sql, customerId, ids)).map((row) => [row.id as string, row]));
  const services = await sql<(Values & { id: string })[]>`
    select id, ${constant(sql, people.serviceColumns.join(', '))}
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and id = any(${[...locked.keys()]}::uuid[])`;
  const current = new Map(
    services.map((row) => [row.id, { ...row, ...locked.get(row.id) } as Values & { id: LockedId }]),
  );
  const lockedIds = (given: readonly string[]): LockedId[] => given.map((id) => current.get(id)!.id);
  const outcomes = await undo.undoCreated(
    undoing,
    current,
    (created) => people.findInUse(undoing, lockedIds(created)),
    (removed) => people.remove(undoing, lockedIds(removed)),
  );
  const updated = effects.flatMap((effect) => {
    const row = effect.kind === 'updated' ? current.get(effect.id) : undefined;
    if (!row) return [];
    const reverted = undo.revert(row, effect);
    const company = reverted.columns['company_id'] as string | null | undefined;
    if (company && !liveIds.has(company)) undo.keep(reverted, 'company_id', 'gone');
    // A company that was deleted before the change gets the contact back with its own undo.
    const former = company === null ? (effect.before['deleted_company_id'] as string | null | undefined) : null;
    if (former && liveIds.has(former)) undo.restore(reverted, 'company_id', former);
    return [{ effect, row, reverted, former: former && companyIds.has(former) ? { company_id: former } : {} }];
  });
  await revertVerifications(sql, customerId, updated);
  await keepTaken(undoing, people, updated);
  for (const { effect, reverted } of updated) outcomes.set(effect.id, undo.outcomeOf(reverted));
  // In one statement, two records could not exchange their external ids.
  const freed = updated.filter(({ reverted }) => 'external_id' in reverted.columns).map(({ row }) => row.id);
  await sql`
    update ${constant(sql, table)}
    set external_id = null
    where customer_id = ${customerId}
      and id = any(${freed as string[]}::uuid[])`;
  const changes = updated.filter(({ reverted }) => Object.keys(reverted.columns).length > 0);
  await people.update(
    undoing,
    changes.map(({ row, reverted, former }) => ({ ...row, ...reverted.columns, ...former })),
  );
  for (const { row, reverted } of changes) {
    const columns: Values = { ...row, ...reverted.columns };
    deferred.updated(kind.noun, { id: row.id, external_id: columns['external_id'] as string | null }, row, columns);
  }

  const stayed = effects.flatMap(({ merged_into }) => merged_into ?? []);
  const later = stayed.length === 0 ? [] : await findLaterMerges(sql, customerId, [...new Set(stayed)]);
  const mergedSince = new Set<string | null>(later.map(({ id }) => id));
  for (const { id, merged_into } of effects)
    if (mergedSince.has(merged_into) && !current.has(id))
      outcomes.set(id, { status: 'skipped', reason: 'changed_since' });
  const restored = await undo.undoDeleted(undoing, current, outcomes, people.records, async (deleted) => {
    const companyOf = ({ company_id }: undo.Deleted) => (companyIds.has(company_id as string) ? company_id : null);
    const rows = deleted.map((row) => ({ ...people.blank, ...row, company_id: companyOf(row) }));
    return undo.lostOf(deleted, await people.restore(undoing, rows));
  });
  deferred.count(table, restored.length);
  await forgetMerged(sql, customerId, [...restored.map(({ id }) => id), ...changes.flatMap(regainedOf)]);
  for (const effect of restored)
    if (effect.merged_into !== null)
      await takeBackMerged(sql, customerId, effect.id, { ...undo.movedOf(effect), from: effect.merged_into });
  return outcomes;
}

// If the change has not written the verification, that is the one which the next write found.
async function revertVerifications(
  sql: Transaction,
  customerId: string,
  updated: readonly { effect: Effect; row: Values; reverted: undo.Reverted }[],
): Promise<void> {
  const readdressed = updated.filter(
    ({ row, reverted: { columns } }) =>
      columns['work_email'] !== undefined &&
      fold(columns['work_email'] as string) !== fold(row['work_email'] as string),
  );
  const positions = readdressed.map(({ effect: { id, last } }) => ({ record_id: id, position: last }));
  const later = positions.length === 0 ? [] : await readLater(sql, customerId, positions);
  const found = new Map(later.map(({ position, name, value }) => [`${position} ${name}`, value]));
  for (const { effect, row, reverted } of readdressed)
    for (const name of verification) {
      const next = `${effect.last} ${name}`;
      const after = found.has(next) ? found.get(next) : row[name];
      const before = name in effect.before ? effect.before[name] : after;
      if (!isSame(row[name], before)) undo.restore(reverted, name, before);
    }
  for (const { reverted } of updated)
    if (reverted.kept.includes('work_email'))
      for (const name of verification) if (name in reverted.columns) undo.keep(reverted, name);
}

const verification = ['verification_status', 'last_verified'];

async function keepTaken(
  { sql, customerId }: undo.Undoing,
  { records }: People,
  updated: readonly { row: Values; reverted: undo.Reverted }[],
): Promise<void> {
  const changing = updated
    .filter(({ reverted }) => 'external_id' in reverted.columns)
    .map(({ row, reverted }) => ({
      reverted,
      has: row['external_id'] as string | null,
      wants: reverted.columns['external_id'] as string | null,
    }));
  const taken = await findTaken(
    sql,
    customerId,
    records,
    changing.flatMap(({ wants }) => wants ?? []),
  );
  for (const { reverted } of findRefused(taken, changing)) undo.keep(reverted, 'external_id', 'taken');
}

/** Returns the id under which `rememberMerge` stored an external id, if the record gets this external id back. */
function regainedOf({ row, reverted }: { row: { id: string }; reverted: undo.Reverted }): string[] {
  const regained = reverted.columns['external_id'] as string | null | undefined;
  return regained ? [lostIdOf(row.id, regained)] : [];
}

const pick = (row: Values, names: readonly string[]): Values =>
  Object.fromEntries(names.map((name) => [name, row[name] ?? null]));

const wholeContactRow = (customerId: string, row: Values) => {
  const names = [...contactFields, 'company_id', ...contactServiceColumns];
  return contactRow(customerId, pick(row, names) as unknown as WholeContact);
};

/**
 * Returns those of the records that the change made, as an SQL table of their ids and of the position at which each was
 * made, and the ids of those that it restored.
 */
function madeBy({ sql, effects }: undo.Undoing, ids: readonly LockedId[]) {
  const all = effects.filter(({ id }) => (ids as readonly string[]).includes(id));
  const made = sql`unnest(${all.map(({ id }) => id)}::uuid[], ${all.map(({ first }) => first)}::bigint[])`;
  return { made, restored: all.flatMap(({ id, is_restored }) => (is_restored ? [id] : [])) };
}

const contacts: People = {
  records: contactTable,
  serviceColumns: contactServiceColumns,
  blank: { ...blank, score: 0, verification_status: 'unverified' },
  lock: lockContactRows,
  remove: ({ sql, customerId, deferred }, ids) => removeContacts(sql, customerId, ids, deferred),
  // A contact that was restored came back with its former opportunities: only those that got it since count.
  findInUse: async (undoing, ids) => {
    const { sql, customerId, changeId } = undoing;
    const { made, restored } = madeBy(undoing, ids);
    const rows = await sql<{ contact_id: string }[]>`
      select m.contact_id
      from opportunity_contacts m
      join ${made} as contact (id, first) on contact.id = m.contact_id
      where m.customer_id = ${customerId}::uuid
        and m.contact_id = any(${ids as LockedId[]}::uuid[])
        and (
          contact.id <> all (${restored}::uuid[])
          or exists (
            select 1
            from journal j
            where j.customer_id = ${customerId}::uuid
              and j.record_id = m.opportunity_id
              and j.change_id is distinct from ${changeId}::uuid
              and j.position > contact.first
              and (
                j.type = 'opportunity.created'
                or (j.after -> 'contacts_ids')::jsonb ? contact.id::text
                and not (j.before -> 'contacts_ids')::jsonb ? contact.id::text
              )
          )
        )`;
    return new Set(rows.map(({ contact_id }) => contact_id));
  },
  update: ({ sql, customerId }, rows) =>
    updateRows(sql, customerId, wholeContacts, rows, ({ id, ...row }) => ({ id, ...wholeContactRow(customerId, row) })),
  restore: async ({ sql, customerId, effects }, rows) => {
    const table = { ...wholeContacts, columns: ['id', ...wholeContacts.columns] as never[] };
    await insertRows(sql, customerId, table, rows, ({ id, ...row }) => ({ id, ...wholeContactRow(customerId, row) }));
    await markRemoved(sql, customerId, rows);
    const ids = new Set(rows.map(({ id }) => id));
    await undo.restoreLinks(
      sql,
      customerId,
      effects.filter(({ id }) => ids.has(id)),
    );
    await reattachActivities(sql, customerId, 'contact', [...ids]);
    return ids;
  },
};

const companies: People = {
  records: companyTable,
  serviceColumns: companyServiceColumns,
  blank: { ...blankCompany, score: 0, verification_status: 'unverified' },
  lock: (sql, customerId, ids) => lockCompanyRows(sql, customerId, ids, 'update'),
  remove: ({ sql, customerId, deferred }, ids) => removeCompanies(sql, customerId, ids, deferred),
  findInUse: async (undoing, ids) => {
    const { sql, customerId, changeId } = undoing;
    const { made, restored } = madeBy(undoing, ids);
    // What the change has made after a company was taken back before it, or is kept. A company that was restored took back
    // what it had: only what it got since belongs to it for another reason.
    const isOther = (table: 'contacts' | 'opportunities') => sql`
      case
        when company.id <> all (${restored}::uuid[]) then not exists (
          select 1
          from journal j
          where j.customer_id = ${customerId}::uuid
            and j.record_id = r.id
            and j.${isOfChange(sql, changeId)}
            and j.type = ${table === 'contacts' ? 'contact.created' : 'opportunity.created'}
            and j.position < company.first
        )
        else exists (
          select 1
          from journal j
          where j.customer_id = ${customerId}::uuid
            and j.record_id = r.id
            and j.change_id is distinct from ${changeId}::uuid
            and j.position > company.first
            and (j.type like '%.created' or j.after ->> 'company_id' = company.id::text)
        )
      end`;
    const used = (table: 'contacts' | 'opportunities') => sql`
      select r.company_id
      from ${constant(sql, table)} r
      join ${made} as company (id, first) on company.id = r.company_id
      where r.customer_id = ${customerId}::uuid
        and r.company_id = any(${ids as LockedId[]}::uuid[])
        and ${isOther(table)}`;
    const rows = await sql<{ company_id: string }[]>`${used('contacts')} union ${used('opportunities')}`;
    return new Set(rows.map(({ company_id }) => company_id));
  },
  update: ({ sql, customerId }, rows) =>
    updateRows(sql, customerId, wholeCompanies, rows, (row) => ({
      id: row.id,
      ...companyRow(customerId, pick(row, [...companyFields, ...companyServiceColumns]) as unknown as WholeCompany),
    })),
  // Their rows are there (with an external id that may be taken), and their contacts and opportunities refer to them, unless a merge has moved these.
  restore: async ({ sql, customerId, effects }, rows) => {
    const present = await sql<{ id: LockedId }[]>`
      update companies
      set deleted_at = null, external_id = null
      where customer_id = ${customerId}
        and id = any(${rows.map(({ id }) => id)}::uuid[])
        and deleted_at is not null
      returning id`;
    const ids = new Set<string>(present.map(({ id }) => id));
    await companies.update(
      { sql, customerId } as undo.Undoing,
      rows.filter(({ id }) => ids.has(id)) as (Values & { id: LockedId })[],
    );
    for (const effect of effects)
      if (ids.has(effect.id) && effect.merged_into !== null) await undo.takeBackRecords(sql, customerId, effect);
    await reattachActivities(sql, customerId, 'company', [...ids]);
    return ids;
  },
};

async function findLiveCompanies(sql: Transaction, customerId: string, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await sql<{ id: string }[]>`
    select co.id
    from ${liveCompanies(sql, customerId)}
      and co.id = any(${ids as string[]}::uuid[])`;
  return new Set(rows.map(({ id }) => id));
}

const markRemoved = (sql: Transaction, customerId: string, rows: readonly { id: string }[]) => sql`
  update contacts c
  set removal_requested_at = r.removed_at
  from (
    select id, prospect_id
    from contacts
    where customer_id = ${customerId}
      and id = any(${rows.map(({ id }) => id)}::uuid[])
    union
    select merged_into, prospect_id
    from merged_records
    where customer_id = ${customerId}
      and merged_into = any(${rows.map(({ id }) => id)}::uuid[])
  ) person
  join removals r on r.customer_id = ${customerId} and r.prospect_id = person.prospect_id
  where c.customer_id = ${customerId}
    and c.id = person.id
    and c.removal_requested_at is null`;
