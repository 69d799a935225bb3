import type { LockedId, Transaction } from '../../database/db.ts';
import { constant } from '../../filters/sql.ts';
import { companyFields } from '../../schemas/companies.ts';
import { contactFields } from '../../schemas/contacts.ts';
import {
  blankCompany,
  companiesWritten,
  companyRow,
  lockCompanyRows,
  removeCompanies,
  serviceColumns as companyServiceColumns,
  type CompanyColumns,
} from '../crm/companies.ts';
import {
  blank,
  contactRow,
  contactsWritten,
  lockContactRows,
  removeContacts,
  serviceColumns as contactServiceColumns,
  type ContactColumns,
} from '../crm/contacts.ts';
import { insertRows, updateRows } from '../records/batch-rows.ts';
import type { LastWrites } from '../records/last-writes.ts';
import { forgetMerged } from '../records/merged-records.ts';
import { lockValues } from '../records/value-locks.ts';
import type { PlaceInOpportunity } from '../sales/opportunity-contacts.ts';
import { findWrittenSince, isOfChange, type Effect, type Values } from './effects.ts';
import { keep, outcomeOf, revert, type Outcome, type Reverted } from './revert.ts';

/** What a batch of an undo does with its records, which are all contacts or all companies. */
interface Undoing {
  sql: Transaction;
  customerId: string;
  changeId: string;
  effects: readonly Effect[];
  last: LastWrites;
}

/** What is done for contacts and companies alike. */
interface People {
  noun: 'contact' | 'company';
  table: 'contacts' | 'companies';
  /** SQL condition: the row is live. */
  live: string;
  columns: readonly string[];
  serviceColumns: readonly string[];
  blank: Values;
  lock: (sql: Transaction, customerId: string, ids: readonly string[]) => Promise<(Values & { id: LockedId })[]>;
  remove: (undoing: Undoing, ids: readonly LockedId[]) => Promise<void>;
  /** Returns those that must stay although nothing else wrote them, because other records belong to them. */
  findInUse: (undoing: Undoing, ids: readonly LockedId[]) => Promise<Set<string>>;
  update: (undoing: Undoing, rows: readonly (Values & { id: LockedId })[]) => Promise<void>;
  /** Makes rows of deleted records, with the links that still exist. Returns the ids of those that could be made. */
  restore: (undoing: Undoing, rows: readonly (Values & { id: string })[]) => Promise<Set<string>>;
}

/** Undoes what a change has done with some contacts. Returns what became of each. */
export const undoContacts = (undoing: Undoing): Promise<Map<string, Outcome>> => undoPeople(undoing, contacts);

/** Undoes what a change has done with some companies. Returns what became of each. */
export const undoCompanies = (undoing: Undoing): Promise<Map<string, Outcome>> => undoPeople(undoing, companies);

// What was created goes first and what was deleted comes last, so that an external id is free when its record gets it
// back: a merge gives that of a merged record to the one that stays.
async function undoPeople(undoing: Undoing, people: People): Promise<Map<string, Outcome>> {
  const { sql, customerId, effects, last } = undoing;
  const valuesOf = (name: string): string[] =>
    effects.flatMap(({ before }) => (before[name] as string | null | undefined) ?? []);
  const externalIds = valuesOf('external_id');
  await lockValues(sql, customerId, [
    ...externalIds.map((value) => ({ kind: 'external_id' as const, value })),
    ...valuesOf('prospect_id').map((value) => ({ kind: 'prospect_id' as const, value })),
  ]);
  const companyIds = new Set(await lockPresent(sql, customerId, 'companies', valuesOf('company_id')));
  const ids = effects.map(({ id }) => id);
  const locked = new Map((await people.lock(sql, customerId, ids)).map((row) => [row.id as string, row]));
  const services = await sql<(Values & { id: string })[]>`
    select id, ${constant(sql, people.serviceColumns.join(', '))}
    from ${constant(sql, people.table)}
    where customer_id = ${customerId}
      and id = any(${[...locked.keys()]}::uuid[])`;
  const current = new Map(
    services.map((row) => [row.id, { ...row, ...locked.get(row.id) } as Values & { id: LockedId }]),
  );
  const outcomes = new Map<string, Outcome>();

  const created = effects.filter(({ id, kind }) => kind === 'created' && current.has(id));
  const written = await findWrittenSince(sql, customerId, created, current);
  const untouched = created.filter(({ id }) => !written.has(id)).map(({ id }) => current.get(id)!.id);
  const inUse = await people.findInUse(undoing, untouched);
  await people.remove(
    undoing,
    untouched.filter((id) => !inUse.has(id)),
  );
  for (const { id } of created)
    if (written.has(id)) outcomes.set(id, { status: 'skipped', reason: 'changed_since' });
    else outcomes.set(id, inUse.has(id) ? { status: 'skipped', reason: 'in_use' } : { status: 'succeeded' });

  const updated = effects.flatMap((effect) => {
    const row = effect.kind === 'updated' ? current.get(effect.id) : undefined;
    if (!row) return [];
    const reverted = revert(row, effect);
    const company = reverted.columns['company_id'] as string | null | undefined;
    if (company && !companyIds.has(company)) keep(reverted, 'company_id');
    return [{ effect, row, reverted }];
  });
  const deleted = effects.filter(({ id, kind }) => kind === 'deleted' && !current.has(id));
  const taken = await keepTaken(undoing, people, externalIds, updated);
  for (const { effect, reverted } of updated)
    outcomes.set(effect.id, outcomeOf(reverted, taken.has(effect.before['external_id']) ? 'taken' : 'changed_since'));
  // In one statement, two records could not exchange their external ids.
  const freed = updated.filter(({ reverted }) => 'external_id' in reverted.columns).map(({ row }) => row.id);
  await sql`
    update ${constant(sql, people.table)}
    set external_id = null
    where customer_id = ${customerId}
      and id = any(${freed as string[]}::uuid[])`;
  const changes = updated.filter(({ reverted }) => Object.keys(reverted.columns).length > 0);
  await people.update(
    undoing,
    changes.map(({ row, reverted }) => ({ ...row, ...reverted.columns })),
  );
  for (const { row, reverted } of changes) {
    const columns: Values = { ...row, ...reverted.columns };
    last.updated(people.noun, { id: row.id, external_id: columns['external_id'] as string | null }, row, columns);
  }

  const rows = deleted.map(({ id, before }) => {
    const isTaken = taken.has(before['external_id']);
    if (isTaken) outcomes.set(id, { status: 'succeeded', reason: 'taken', kept: ['external_id'] });
    const company_id = companyIds.has(before['company_id'] as string) ? before['company_id'] : null;
    return { ...people.blank, ...before, company_id, ...(isTaken && { external_id: null }), id };
  });
  const restored = await people.restore(undoing, rows);
  for (const { id, external_id } of rows) {
    if (!restored.has(id)) outcomes.set(id, { status: 'failed', reason: 'gone' });
    else {
      if (!outcomes.has(id)) outcomes.set(id, { status: 'succeeded' });
      last.created(people.noun, { id, external_id: external_id as string | null }, { restored: true });
    }
  }
  last.count(people.table, restored.size);
  await forgetMerged(sql, customerId, [...restored]);
  for (const { id, kind } of effects)
    if (!outcomes.has(id) && kind === 'deleted') outcomes.set(id, { status: 'skipped' });
    else if (!outcomes.has(id))
      outcomes.set(
        id,
        kind === 'updated' ? { status: 'failed', reason: 'gone' } : { status: 'skipped', reason: 'gone' },
      );
  return outcomes;
}

/**
 * Keeps the external ids of updated records where another record has the one from before, and does not give it away.
 * @returns the external ids that cannot be given back
 */
async function keepTaken(
  { sql, customerId }: Undoing,
  { table, live }: People,
  externalIds: readonly string[],
  updated: readonly { row: Values & { id: LockedId }; reverted: Reverted }[],
): Promise<Set<unknown>> {
  const rows = await sql<{ id: string; external_id: string }[]>`
    select id, external_id
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and external_id = any(${externalIds as string[]}::text[])
      and ${constant(sql, live)}`;
  const taken = new Set<unknown>();
  for (let more = true; more;) {
    const giving = new Set<string>(
      updated.flatMap(({ row, reverted }) => ('external_id' in reverted.columns ? row.id : [])),
    );
    for (const { id, external_id } of rows) if (!giving.has(id)) taken.add(external_id);
    const refused = updated.filter(({ reverted }) => taken.has(reverted.columns['external_id']));
    for (const { reverted } of refused) keep(reverted, 'external_id');
    // Those who keep theirs give it to nobody.
    more = refused.length > 0;
  }
  return taken;
}

const pick = (row: Values, names: readonly string[]): Values =>
  Object.fromEntries(names.map((name) => [name, row[name] ?? null]));

const contacts: People = {
  noun: 'contact',
  table: 'contacts',
  live: 'true',
  columns: [...contactFields, 'company_id'],
  serviceColumns: contactServiceColumns,
  blank: { ...blank, score: 0, verification_status: 'unverified' },
  lock: lockContactRows,
  remove: ({ sql, customerId, last }, ids) => removeContacts(sql, customerId, ids, last),
  findInUse: async () => new Set(),
  update: async ({ sql, customerId }, rows) => {
    await updateRows(sql, customerId, contactsWritten, rows, (row) => ({
      id: row.id,
      ...contactRow(customerId, pick(row, contacts.columns) as unknown as ContactColumns),
    }));
    await setServiceColumns(sql, customerId, contacts, rows);
  },
  restore: async ({ sql, customerId, effects }, rows) => {
    const table = {
      ...contactsWritten,
      columns: ['id', ...contactsWritten.columns, ...contactServiceColumns] as never[],
    };
    await insertRows(sql, customerId, table, rows, (row) => {
      const columns = pick(row, contacts.columns) as unknown as ContactColumns;
      return { id: row.id, ...pick(row, contactServiceColumns), ...contactRow(customerId, columns) };
    });
    await markRemoved(sql, customerId, rows);
    await restoreMemberships(sql, customerId, rows);
    await restoreOpportunities(sql, customerId, rows);
    const ids = new Set(rows.map(({ id }) => id));
    for (const effect of effects)
      if (ids.has(effect.id) && effect.merged_into !== null) await takeBackLinks(sql, customerId, effect);
    return ids;
  },
};

const companies: People = {
  noun: 'company',
  table: 'companies',
  live: 'deleted_at is null',
  columns: companyFields,
  serviceColumns: companyServiceColumns,
  blank: { ...blankCompany, score: 0, verification_status: 'unverified' },
  lock: (sql, customerId, ids) => lockCompanyRows(sql, customerId, ids, 'update'),
  remove: ({ sql, customerId, last }, ids) => removeCompanies(sql, customerId, ids, last),
  findInUse: async ({ sql, customerId, changeId, effects }, ids) => {
    const restored = effects.filter(({ is_restored }) => is_restored);
    // A company that was restored took back what it had. Only what it got since belongs to it for another reason.
    const isOther = (table: 'contacts' | 'opportunities') => sql`
      case
        when again.id is null then not exists (
          select 1
          from journal j
          where j.customer_id = ${customerId}::uuid
            and j.record_id = r.id
            and j.${isOfChange(sql, changeId)}
            and j.type = ${table === 'contacts' ? 'contact.created' : 'opportunity.created'}
        )
        else exists (
          select 1
          from journal j
          where j.customer_id = ${customerId}::uuid
            and j.record_id = r.id
            and j.change_id is distinct from ${changeId}::uuid
            and j.position > again.first
            and (j.type like '%.created' or j.after ->> 'company_id' = again.id::text)
        )
      end`;
    const used = (table: 'contacts' | 'opportunities') => sql`
      select r.company_id
      from ${constant(sql, table)} r
      left join unnest(
        ${restored.map(({ id }) => id)}::uuid[],
        ${restored.map(({ first }) => first)}::bigint[]
      ) as again (id, first) on again.id = r.company_id
      where r.customer_id = ${customerId}::uuid
        and r.company_id = any(${ids as LockedId[]}::uuid[])
        and ${isOther(table)}`;
    const rows = await sql<{ company_id: string }[]>`${used('contacts')} union ${used('opportunities')}`;
    return new Set(rows.map(({ company_id }) => company_id));
  },
  update: async ({ sql, customerId }, rows) => {
    await updateRows(sql, customerId, companiesWritten, rows, (row) => ({
      id: row.id,
      ...companyRow(customerId, pick(row, companyFields) as unknown as CompanyColumns),
    }));
    await setServiceColumns(sql, customerId, companies, rows);
  },
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
      { sql, customerId } as Undoing,
      rows.filter(({ id }) => ids.has(id)) as (Values & { id: LockedId })[],
    );
    for (const effect of effects)
      if (ids.has(effect.id) && effect.merged_into !== null) await takeBackRecords(sql, customerId, effect);
    return ids;
  },
};

/** Writes the columns that only the service writes. `updateRows` leaves them, or resets them. */
async function setServiceColumns(
  sql: Transaction,
  customerId: string,
  { table, serviceColumns }: People,
  rows: readonly (Values & { id: string })[],
): Promise<void> {
  if (rows.length === 0) return;
  const given = rows.map((row) => ({ id: row.id, ...pick(row, serviceColumns) }));
  await sql`
    update ${constant(sql, table)} r
    set ${constant(sql, serviceColumns.map((name) => `${name} = given.${name}`).join(', '))}
    from jsonb_populate_recordset(null::${constant(sql, table)}, ${sql.json(given)}) given
    where r.customer_id = ${customerId}
      and r.id = given.id`;
}

/** Locks those of the rows that exist, also if they are deleted. */
async function lockPresent(
  sql: Transaction,
  customerId: string,
  table: 'companies' | 'lists' | 'opportunities',
  ids: readonly string[],
): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await sql<{ id: string }[]>`
    select id
    from ${constant(sql, table)}
    where customer_id = ${customerId}
      and id = any(${[...new Set(ids)]}::uuid[])
    order by id
    for key share`;
  return rows.map(({ id }) => id);
}

/** Some people may have been erased from the catalog while their contacts were deleted. */
const markRemoved = (sql: Transaction, customerId: string, rows: readonly { id: string }[]) => sql`
  update contacts c
  set removal_requested_at = r.removed_at
  from removals r
  where c.customer_id = ${customerId}
    and c.id = any(${rows.map(({ id }) => id)}::uuid[])
    and c.removal_requested_at is null
    and r.customer_id = ${customerId}
    and r.prospect_id = c.prospect_id`;

async function restoreMemberships(
  sql: Transaction,
  customerId: string,
  rows: readonly (Values & { id: string })[],
): Promise<void> {
  const pairs = rows.flatMap(({ id, list_ids: lists = [] }) => (lists as string[]).map((list) => ({ id, list })));
  const present = new Set(
    await lockPresent(
      sql,
      customerId,
      'lists',
      pairs.map(({ list }) => list),
    ),
  );
  const kept = pairs.filter(({ list }) => present.has(list));
  if (kept.length === 0) return;
  await sql`
    insert into list_members (customer_id, list_id, contact_id)
    select ${customerId}, given.list_id, given.contact_id
    from unnest(${kept.map(({ list }) => list)}::uuid[], ${kept.map(({ id }) => id)}::uuid[]) as given (list_id, contact_id)
    on conflict (customer_id, list_id, contact_id) do nothing`;
}

async function restoreOpportunities(
  sql: Transaction,
  customerId: string,
  rows: readonly (Values & { id: string })[],
): Promise<void> {
  const places = rows.flatMap(({ id, opportunities = [] }) =>
    (opportunities as PlaceInOpportunity[]).map((place) => ({ contact: id, ...place })),
  );
  const present = new Set(
    await lockPresent(
      sql,
      customerId,
      'opportunities',
      places.map(({ id }) => id),
    ),
  );
  const kept = places.filter(({ id }) => present.has(id));
  if (kept.length === 0) return;
  await sql`
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, given.opportunity_id, given.contact_id, given.position
    from unnest(
      ${kept.map(({ id }) => id)}::uuid[],
      ${kept.map(({ contact }) => contact)}::uuid[],
      ${kept.map(({ position }) => position)}::integer[]
    ) as given (opportunity_id, contact_id, position)
    on conflict (customer_id, opportunity_id, contact_id) do nothing`;
}

/** What a merge has added to the record that stays. */
interface Moved {
  lists?: string[];
  opportunities?: string[];
  /** Where the contact that stays was in opportunities. */
  places?: PlaceInOpportunity[];
  contacts?: string[];
}

const movedOf = ({ before }: Effect): Moved => (before['moved'] as Moved | undefined) ?? {};

/** Removes the contact that stayed from lists and opportunities in which it is because of the merge. */
async function takeBackLinks(sql: Transaction, customerId: string, effect: Effect): Promise<void> {
  const { lists = [], opportunities = [], places = [] } = movedOf(effect);
  await sql`
    delete from list_members
    where customer_id = ${customerId}
      and contact_id = ${effect.merged_into}
      and list_id = any(${lists}::uuid[])`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and contact_id = ${effect.merged_into}
      and opportunity_id = any(${opportunities}::uuid[])`;
  await sql`
    update opportunity_contacts m
    set position = given.position
    from unnest(
      ${places.map(({ id }) => id)}::uuid[],
      ${places.map(({ position }) => position)}::integer[]
    ) as given (id, position)
    where m.customer_id = ${customerId}
      and m.contact_id = ${effect.merged_into}
      and m.opportunity_id = given.id`;
}

/** Gives a company back the contacts and opportunities that the one that stayed still has of it. */
async function takeBackRecords(sql: Transaction, customerId: string, effect: Effect): Promise<void> {
  const { contacts: people = [], opportunities = [] } = movedOf(effect);
  const takeBack = (table: 'contacts' | 'opportunities', ids: string[]) => sql`
    update ${constant(sql, table)}
    set company_id = ${effect.id}, updated_at = (select clock_timestamp())
    where customer_id = ${customerId}
      and company_id = ${effect.merged_into}
      and id = any(array(
        select r.id
        from ${constant(sql, table)} r
        where r.customer_id = ${customerId}
          and r.id = any(${ids}::uuid[])
        order by r.id
        for no key update
      ))`;
  if (people.length > 0) await takeBack('contacts', people);
  if (opportunities.length > 0) await takeBack('opportunities', opportunities);
}
