import { isSame, lockDeletedValues } from '../records/journal.ts';
import { findWrittenSince, isOfChange, type Effect, type Values } from './effects.ts';
import type { Transaction } from '../../database/db.ts';
import { constant } from '../../filters/sql.ts';
import { findActivities } from '../crm/activities.ts';
import { findMergesInto } from '../crm/record-merges.ts';
import type { RecordTable } from '../records/batches.ts';
import type { DeferredWrites } from '../records/deferred-writes.ts';
import { findMergedSince } from '../records/merged-records.ts';
import { findTaken } from '../records/references.ts';
import type { Moved } from '../crm/merges.ts';
import type { PlaceInOpportunity } from '../crm/links.ts';

export type KeptReason = 'changed_since' | 'taken' | 'in_use' | 'gone';

export interface Outcome {
  status: 'succeeded' | 'skipped' | 'failed';
  reason?: KeptReason;
  restored?: string[];
  kept?: string[];
}

export interface Reverted {
  columns: Values;
  restored: string[];
  kept: string[];
  reason: KeptReason;
}

/**
 * Computes which fields of a record an undo restores. A field gets its earlier value back if nobody has changed it
 * since. A person's request for removal is never undone.
 * @param current current columns of the record
 */
export function revert(current: Values, { before, after }: Effect): Reverted {
  const reverted: Reverted = { columns: {}, restored: [], kept: [], reason: 'changed_since' };
  const take = (now: Values, field: string, name: string, to: Values): void => {
    const [old, given] = [fieldOf(before, field), fieldOf(after, field)];
    if (isSame(now[name] ?? null, given ?? null)) {
      if (isSame(old ?? null, given ?? null)) return;
      if (old === undefined) delete to[name];
      else to[name] = old;
      reverted.restored.push(field);
    } else if (!isSame(now[name] ?? null, old ?? null)) reverted.kept.push(field);
  };
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)]))
    if (!restoredApart.has(name)) take(current, name, name, reverted.columns);
  const keys = new Set([...Object.keys(customOf(before)), ...Object.keys(customOf(after))]);
  const custom = { ...customOf(current) };
  const restored = reverted.restored.length;
  for (const key of keys) take(customOf(current), `custom_fields.${key}`, key, custom);
  if (reverted.restored.length > restored) reverted.columns['custom_fields'] = custom;
  return reverted;
}

const restoredApart: ReadonlySet<string> = new Set(['custom_fields', 'removal_requested_at', 'deleted_company_id']);

const customOf = (values: Values): Values => (values['custom_fields'] as Values | undefined) ?? {};

const prefix = 'custom_fields.';

const fieldOf = (values: Values, field: string): unknown =>
  field.startsWith(prefix) ? customOf(values)[field.slice(prefix.length)] : values[field];

export function keep(reverted: Reverted, name: string, reason: KeptReason = reverted.reason): void {
  reverted.reason = reason;
  delete reverted.columns[name];
  reverted.restored = reverted.restored.filter((field) => field !== name);
  reverted.kept.push(name);
}

export function restore(reverted: Reverted, name: string, value: unknown): void {
  reverted.columns[name] = value;
  reverted.kept = reverted.kept.filter((field) => field !== name);
  if (!reverted.restored.includes(name)) reverted.restored.push(name);
}

export const outcomeOf = ({ restored, kept, reason }: Reverted): Outcome => ({
  status: restored.length > 0 ? 'succeeded' : 'skipped',
  ...(kept.length > 0 && { reason }),
  restored,
  kept,
});

interface Links {
  list_ids?: string[];
  opportunities?: PlaceInOpportunity[];
}

export interface Undoing {
  sql: Transaction;
  customerId: string;
  changeId: string;
  effects: readonly Effect[];
  deferred: DeferredWrites;
}

/**
 * Deletes the records that the change created, except those that others have changed or used since.
 * @param current values of the existing records, in the form of the journal
 * @param findInUse returns the ids of records to which other records belong
 */
export async function undoCreated(
  undoing: Undoing,
  current: ReadonlyMap<string, Values>,
  findInUse: (ids: string[]) => Promise<ReadonlySet<string>>,
  remove: (ids: string[]) => Promise<void>,
): Promise<Map<string, Outcome>> {
  const { sql, customerId, effects } = undoing;
  const created = effects.filter(({ id, kind }) => kind === 'created' && current.has(id));
  const merged = await findMergedSince(sql, customerId, created);
  const written = (await findWrittenSince(sql, customerId, created, current)).union(new Set(merged));
  const untouched = created.filter(({ id }) => !written.has(id));
  const ids = untouched.map(({ id }) => id);
  const inUse = (await findInUse(ids)).union(await findWithOtherActivity(undoing, untouched));
  await remove(ids.filter((id) => !inUse.has(id)));
  const outcomeOfCreated = (id: string): Outcome => {
    if (written.has(id)) return { status: 'skipped', reason: 'changed_since' };
    return inUse.has(id) ? { status: 'skipped', reason: 'in_use' } : { status: 'succeeded' };
  };
  return new Map(created.map(({ id }) => [id, outcomeOfCreated(id)]));
}

const holders: ReadonlySet<string> = new Set(['contact', 'company', 'opportunity'] as const);

async function findWithOtherActivity(
  { sql, customerId, changeId }: Undoing,
  created: readonly Effect[],
): Promise<ReadonlySet<string>> {
  const { noun } = created[0] ?? {};
  if (noun === undefined || !holders.has(noun)) return new Set();
  const rows = await sql<{ holder: string; id: string; last: number; is_new: boolean }[]>`
    select
      given.id as holder,
      a.id,
      coalesce(max(j.position) filter (where j.${isOfChange(sql, changeId)}), given.first) as last,
      bool_or(
        j.type = 'activity.created'
        and j.data ->> 'restored' is null
        and j.change_id is distinct from ${changeId}::uuid
      ) as is_new
    from unnest(
      ${created.map(({ id }) => id)}::uuid[],
      ${created.map(({ first }) => first)}::bigint[]
    ) as given (id, first)
    join activities a on a.customer_id = ${customerId}::uuid and a.${constant(sql, `${noun}_id`)} = given.id
    join journal j on j.customer_id = ${customerId}::uuid and j.record_id = a.id
    where j.position > given.first
    group by given.id, given.first, a.id
    having bool_or(j.change_id is distinct from ${changeId}::uuid)`;
  const found = await findActivities(
    sql,
    customerId,
    rows.map(({ id }) => id),
  );
  const current = new Map(found.map(({ id, ...values }) => [id, values]));
  const activities = rows.map(({ id, last }) => ({ id, last, noun: 'activity', kind: 'created' }) as const);
  const written = await findWrittenSince(sql, customerId, activities, current);
  return new Set(rows.flatMap(({ holder, id, is_new }) => (is_new || written.has(id) ? [holder] : [])));
}

export type Deleted = Values & { id: string; external_id: string | null };

/**
 * Restores the records that the change deleted. Omits external ids that other records now have. Adds the outcomes of
 * all records to `outcomes`.
 * @param records table of the records, if they have external ids
 * @param restore returns the outcomes of records that it did not restore completely
 * @returns the deletions that were undone
 */
export async function undoDeleted(
  { sql, customerId, effects, deferred }: Undoing,
  current: ReadonlyMap<string, Values>,
  outcomes: Map<string, Outcome>,
  records: RecordTable | undefined,
  restore: (deleted: Deleted[]) => Promise<ReadonlyMap<string, Outcome>>,
): Promise<Effect[]> {
  const gone = effects.filter(({ id, kind }) => kind === 'deleted' && !current.has(id) && !outcomes.has(id));
  const positions = gone.map(({ last }) => last);
  const restorable = await lockDeletedValues(sql, customerId, positions);
  const deleted = gone.filter(({ id }) => restorable.has(id));
  const externalIdOf = ({ before }: Effect) => (before['external_id'] as string | undefined) ?? null;
  const wanted = deleted.flatMap((effect) => externalIdOf(effect) ?? []);
  const taken = records ? await findTaken(sql, customerId, records, wanted) : new Set<string | null>();
  const rows = deleted.map((effect) => {
    const external_id = externalIdOf(effect);
    const isTaken = external_id !== null && taken.size === taken.add(external_id).size;
    return { ...effect.before, id: effect.id, external_id: isTaken ? null : external_id };
  });
  const partial = rows.length === 0 ? new Map<string, Outcome>() : await restore(rows);
  for (const [i, { id, external_id }] of rows.entries()) {
    const outcome: Outcome = partial.get(id) ?? { status: 'succeeded' };
    const isTaken = outcome.status === 'succeeded' && external_id !== externalIdOf(deleted[i]!);
    const kept = [...(outcome.kept ?? []), 'external_id'];
    outcomes.set(id, isTaken ? { reason: 'taken', ...outcome, kept } : outcome);
    const subject = records ? { id, external_id } : { id };
    if (outcome.status === 'succeeded') deferred.created(effects[0]!.noun, subject, { restored: true });
  }
  for (const { id, kind } of effects) {
    if (outcomes.has(id)) continue;
    const isLost = kind === 'updated' || kind === 'deleted';
    const lost: Outcome = { status: isLost ? 'failed' : 'skipped', reason: 'gone' };
    outcomes.set(id, current.has(id) ? { status: 'skipped' } : lost);
  }
  return deleted.filter(({ id }) => outcomes.get(id)!.status === 'succeeded');
}

export const lostOf = (deleted: readonly Deleted[], restored: ReadonlySet<string>): Map<string, Outcome> =>
  new Map(deleted.flatMap(({ id }) => (restored.has(id) ? [] : [[id, { status: 'failed', reason: 'gone' }]])));

export const movedOf = ({ before }: Effect): Moved => (before['moved'] as Moved | undefined) ?? {};

export async function lockPresent(
  sql: Transaction,
  customerId: string,
  table: 'companies' | 'lists' | 'opportunities' | 'products',
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

/**
 * Adds restored contacts to their former lists and opportunities, if these still exist. Moves back what a merge moved
 * to another contact, unless that contact has lost it since.
 * @param effects deletions of the contacts
 */
export async function restoreLinks(sql: Transaction, customerId: string, effects: readonly Effect[]): Promise<void> {
  const merges = effects.filter(({ merged_into }) => merged_into !== null);
  const staying = await findLinks(sql, customerId, [...new Set(merges.map(({ merged_into }) => merged_into!))]);
  const isLeft = (effect: Effect, name: keyof CurrentLinks, id: string): boolean => {
    const current = staying.get(effect.merged_into);
    return current === undefined || !movedOf(effect)[name]?.includes(id) || current[name].includes(id);
  };
  const lists = effects.flatMap((effect) =>
    ((effect.before as Links).list_ids ?? [])
      .filter((id) => isLeft(effect, 'lists', id))
      .map((id) => ({ id, contact: effect.id, position: 0 })),
  );
  const places = effects.flatMap((effect) =>
    ((effect.before as Links).opportunities ?? [])
      .filter(({ id }) => isLeft(effect, 'opportunities', id))
      .map((place) => ({ ...place, contact: effect.id })),
  );
  await addLinks(sql, customerId, 'list', lists);
  await addLinks(sql, customerId, 'opportunity', places);
  const restored = new Set(effects.map(({ id }) => id));
  for (const effect of merges)
    if (staying.has(effect.merged_into)) await takeBackLinks(sql, customerId, effect, restored);
}

interface CurrentLinks {
  lists: string[];
  opportunities: string[];
}

async function findLinks(
  sql: Transaction,
  customerId: string,
  ids: readonly string[],
): Promise<Map<string | null, CurrentLinks>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<({ id: string } & CurrentLinks)[]>`
    select
      c.id,
      array(
        select m.list_id
        from list_members m
        where m.customer_id = ${customerId}
          and m.contact_id = c.id
      ) as lists,
      array(
        select m.opportunity_id
        from opportunity_contacts m
        where m.customer_id = ${customerId}
          and m.contact_id = c.id
      ) as opportunities
    from contacts c
    where c.customer_id = ${customerId}
      and c.id = any(${ids as string[]}::uuid[])`;
  return new Map(rows.map(({ id, ...links }) => [id, links]));
}

async function addLinks(
  sql: Transaction,
  customerId: string,
  to: 'list' | 'opportunity',
  given: readonly (PlaceInOpportunity & { contact: string })[],
): Promise<void> {
  const ids = given.map(({ id }) => id);
  const present = new Set(await lockPresent(sql, customerId, to === 'list' ? 'lists' : 'opportunities', ids));
  const links = given.filter(({ id }) => present.has(id));
  if (links.length === 0) return;
  const newLinks = sql`unnest(
      ${links.map(({ id }) => id)}::uuid[],
      ${links.map(({ contact }) => contact)}::uuid[],
      ${links.map(({ position }) => position)}::integer[]
    ) as given (id, contact_id, position)`;
  await (to === 'list'
    ? sql`
      insert into list_members (customer_id, list_id, contact_id)
      select ${customerId}, id, contact_id
      from ${newLinks}
      on conflict (customer_id, list_id, contact_id) do nothing`
    : sql`
      insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
      select ${customerId}, id, contact_id, position
      from ${newLinks}
      on conflict (customer_id, opportunity_id, contact_id) do nothing`);
}

/**
 * Removes the contact that stayed in a merge from lists and opportunities that it got by the merge. Restores its
 * positions in its own opportunities, unless these have changed since.
 * @param restored ids of the contacts whose merges are undone
 */
async function takeBackLinks(
  sql: Transaction,
  customerId: string,
  effect: Effect,
  restored: ReadonlySet<string>,
): Promise<void> {
  const stayed = effect.merged_into!;
  const moved = movedOf(effect);
  const others = (await findMergesInto(sql, customerId, stayed)).filter(({ id }) => !restored.has(id));
  const leftBy = (name: 'lists' | 'opportunities'): string[] => {
    const needed = others.flatMap((other) => other.moved[name] ?? []);
    return [...new Set(moved[name]).difference(new Set(needed))];
  };
  await sql`
    delete from list_members
    where customer_id = ${customerId}
      and contact_id = ${stayed}
      and list_id = any(${leftBy('lists')}::uuid[])`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and contact_id = ${stayed}
      and opportunity_id = any(${leftBy('opportunities')}::uuid[])`;
  const { places = [] } = moved;
  const reordered = await sql<{ id: string }[]>`
    select distinct record_id as id
    from journal
    where customer_id = ${customerId}
      and record_id = any(${places.map(({ id }) => id)}::uuid[])
      and position > ${effect.last}
      and after -> 'contacts_ids' is not null`;
  const own = new Map(places.map(({ id, position }) => [id, position]));
  for (const { id } of [...reordered, ...others.flatMap((other) => other.opportunities)]) own.delete(id);
  await sql`
    update opportunity_contacts m
    set position = given.position
    from unnest(${[...own.keys()]}::uuid[], ${[...own.values()]}::integer[]) as given (id, position)
    where m.customer_id = ${customerId}
      and m.contact_id = ${stayed}
      and m.opportunity_id = given.id`;
}

export async function takeBackRecords(sql: Transaction, customerId: string, effect: Effect): Promise<void> {
  const { contacts: people = [], opportunities = [] } = movedOf(effect);
  const takeBack = (table: 'contacts' | 'opportunities', ids: string[]) => sql`
    update ${constant(sql, table)}
    set company_id = ${effect.id}
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
