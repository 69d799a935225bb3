import type { LockedId, Transaction } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import { liveLists } from '../../filters/sql.ts';
import type { EventActor } from '../../schemas/events.ts';
import type { Rule } from '../../schemas/lists.ts';
import { opportunityFields, type Line, type OpportunityPatch } from '../../schemas/opportunities.ts';
import { productFields } from '../../schemas/products.ts';
import { deleteActivity, lockActivity, restoreActivity, updateActivity } from '../crm/activities.ts';
import { deleteList, hasRoomForRules, updateList } from '../crm/lists.ts';
import { lockDeletedValues } from '../records/journal.ts';
import { withDeferredWrites } from '../records/deferred-writes.ts';
import { isExternalIdTaken, lockReferences } from '../records/references.ts';
import { opportunityTable, productTable, type RecordTable } from '../records/batch-rows.ts';
import { reattachActivities } from '../crm/links.ts';
import {
  setParts,
  sumOf,
  deleteOpportunity,
  findOpportunities,
  referencesOf,
  updateOpportunity,
} from '../crm/opportunities.ts';
import { deleteProduct, findProducts, updateProduct } from '../crm/products.ts';
import { comparable, findWrittenSince, type Effect, type Values } from './effects.ts';
import { pickSettable } from './history.ts';
import { findNoted, keep, outcomeOf, revert, type KeptReason, type Outcome } from './undo-links.ts';

/** Functions to undo changes of one kind of record of which a customer has few. Records are undone one by one. */
interface Others {
  /**
   * Locks a record, and returns its values as the journal names them. Undefined: there is no such record.
   * @param before values that the record may get back. The records to which they refer are locked first
   */
  find: (sql: Transaction, customerId: string, id: string, before: Values) => Promise<object | undefined>;
  remove: (sql: Transaction, customerId: string, id: string) => Promise<void>;
  /**
   * @throws DomainError `not_found` with the paths of columns that refer to a deleted record; `conflict` with the paths
   *   of columns that exceed a limit of the customer
   */
  update: (sql: Transaction, customerId: string, id: string, columns: Values) => Promise<void>;
  /**
   * Restores a deleted record. Status `failed`: nothing was written.
   * @param values values that people set
   * @param kept all values that the journal keeps
   */
  restore: (sql: Transaction, customerId: string, id: string, values: Values, kept: Values) => Promise<Outcome>;
}

export async function undoOther(
  sql: Transaction,
  customerId: string,
  changeId: string,
  effect: Effect,
): Promise<Outcome> {
  const { id, kind, noun } = effect;
  const others = kinds[noun as keyof typeof kinds];
  const own = (values: object): Values => mapValues(pickSettable(noun, values as Values), comparable);
  const [before, after] = [own(effect.before), own(effect.after)];
  const found = await others.find(sql, customerId, id, before);
  const current = found && own(found);
  if (kind === 'deleted') {
    if (current) return { status: 'skipped' };
    const isLast = (await lockDeletedValues(sql, customerId, [effect.last])).has(id);
    if (!isLast) return { status: 'failed', reason: 'gone' };
    const outcome = await others.restore(sql, customerId, id, before, effect.before);
    const isLeftOut = outcome.kept?.includes('external_id');
    const external_id = isLeftOut ? null : ((before['external_id'] as string | undefined) ?? null);
    const subject = noun === 'list' ? { id } : { id, external_id };
    if (outcome.status === 'succeeded')
      await withDeferredWrites(sql, customerId, async (deferred) =>
        deferred.created(noun, subject, { restored: true }),
      );
    return outcome;
  }
  if (!current) return { status: kind === 'updated' ? 'failed' : 'skipped', reason: 'gone' };
  if (kind === 'created') {
    const written = await findWrittenSince(sql, customerId, [effect], new Map([[id, current]]));
    if (written.size > 0) return { status: 'skipped', reason: 'changed_since' };
    if (noun === 'opportunity' && (await findNoted(sql, customerId, changeId, noun, [effect])).size > 0)
      return { status: 'skipped', reason: 'in_use' };
    await others.remove(sql, customerId, id);
    return { status: 'succeeded' };
  }
  const reverted = revert(current, { ...effect, before, after });
  while (reverted.restored.length > 0) {
    const fault = await others.update(sql, customerId, id, reverted.columns).catch(refusalOf);
    if (!fault) break;
    for (const field of fault.fields) keep(reverted, field, fault.reason);
  }
  return outcomeOf(reverted);
}

function refusalOf(error: unknown): { fields: string[]; reason: KeptReason } {
  const reasons: Partial<Record<string, KeptReason>> = {
    not_found: 'gone',
    conflict: 'taken',
    // It contradicts what was written since.
    validation_failed: 'changed_since',
  };
  const [reason, faults] = error instanceof DomainError ? [reasons[error.code], error.faults] : [];
  if (!reason || !faults?.length) throw error;
  const names = new Set(faults.map(({ path }) => path.split('/')[1]!));
  return { reason, fields: Array.from(names, (name) => (name === 'products' ? 'details' : name)) };
}

const mapValues = (values: Values, change: (name: string, value: unknown) => unknown): Values =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(name, value)]));

const lists: Others = {
  find: async (sql, customerId, id) => {
    const [list] = await sql<Values[]>`
      select l.name, l.description, l.rules
      from ${liveLists(sql, customerId)}
        and l.id = ${id}
      for no key update`;
    return list;
  },
  remove: deleteList,
  update: (sql, customerId, id, columns) => updateList(sql, customerId, id, columns),
  restore: async (sql, customerId, id, { rules = [] }) => {
    if ((rules as Rule[]).length > 0 && !(await hasRoomForRules(sql, customerId)))
      return { status: 'failed', reason: 'taken' };
    const { count } = await sql`
      update lists
      set deleted_at = null, counted_at = null, updated_at = (select clock_timestamp())
      where customer_id = ${customerId}
        and id = ${id}`;
    return count > 0 ? { status: 'succeeded' } : { status: 'failed', reason: 'gone' };
  },
};

const products: Others = {
  find: async (sql, customerId, id) => {
    await sql`select id from products where customer_id = ${customerId} and id = ${id} for update`;
    const [product] = await findProducts(sql, customerId, [id]);
    return product;
  },
  remove: deleteProduct,
  update: (sql, customerId, id, columns) => updateProduct(sql, customerId, id, columns),
  // Its row is still there if opportunities use it.
  restore: async (sql, customerId, id, values) => {
    const columns = pick(values, productFields);
    const taken = await leaveOutTaken(sql, customerId, productTable, columns);
    await sql`
      insert into products ${sql({ customer_id: customerId, id, external_id: null, ...columns } as never)}
      on conflict (customer_id, id) do update
      set deleted_at = null, external_id = excluded.external_id, updated_at = excluded.updated_at`;
    return { status: 'succeeded', ...taken };
  },
};

const opportunities: Others = {
  find: async (sql, customerId, id, before) => {
    await lockReferred(sql, customerId, before);
    await sql`select id from opportunities where customer_id = ${customerId} and id = ${id} for update`;
    const [opportunity] = await findOpportunities(sql, customerId, [id]);
    return opportunity;
  },
  remove: deleteOpportunity,
  update: async (sql, customerId, id, { details, contacts_ids, ...columns }) => {
    const patch: OpportunityPatch = columns;
    if (contacts_ids) {
      const missing = await lockReferred(sql, customerId, { contacts_ids });
      patch.contacts_ids = (contacts_ids as string[]).filter((contact) => !missing.has(contact));
    }
    if (details) patch.products = details as Line[];
    await updateOpportunity(sql, customerId, id, patch);
  },
  restore: async (sql, customerId, id, values) => {
    const { contacts_ids = [], details = [] } = values as { contacts_ids?: string[]; details?: Line[] };
    const columns = {
      description: '',
      company_id: null,
      source_id: null,
      ...pick(values, opportunityFields),
    } as Values;
    const { stage_id, user_id_assigned, company_id } = columns as Record<string, string>;
    const missing = await lockReferred(sql, customerId, values);
    if (missing.has(stage_id!) || missing.has(user_id_assigned!)) return { status: 'failed', reason: 'gone' };
    if (company_id && missing.has(company_id)) columns['company_id'] = null;
    // Rows of deleted products stay while an opportunity uses them.
    const present = await sql<{ id: string }[]>`
      select id
      from products
      where customer_id = ${customerId}
        and id = any(${details.map((line) => line.id)}::uuid[])
      order by id
      for key share`;
    const known = new Set(present.map((product) => product.id));
    const lines = details
      .filter((line) => known.has(line.id))
      .map(({ id: product_id, price, quantity }) => ({ product_id, price, quantity }));
    const taken = await leaveOutTaken(sql, customerId, opportunityTable, columns);
    const [made] = await sql<[{ id: LockedId }]>`
      insert into opportunities ${sql({ customer_id: customerId, id, ...columns, price: sumOf(lines) } as never)}
      returning id`;
    const contacts = contacts_ids.filter((contact) => !missing.has(contact));
    await setParts(sql, customerId, [{ id: made.id, stage_id: stage_id!, contacts_ids: contacts, details: lines }]);
    await reattachActivities(sql, customerId, 'opportunity', [id]);
    const lost: Outcome = { status: 'succeeded', reason: 'gone', kept: ['details', ...(taken.kept ?? [])] };
    return lines.length < details.length ? lost : { status: 'succeeded', ...taken };
  },
};

async function leaveOutTaken(
  sql: Transaction,
  customerId: string,
  records: RecordTable,
  columns: Values,
): Promise<Pick<Outcome, 'reason' | 'kept'>> {
  const { external_id = null } = columns as { external_id?: string | null };
  if (!(await isExternalIdTaken(sql, customerId, records, external_id))) return {};
  columns['external_id'] = null;
  return { reason: 'taken', kept: ['external_id'] };
}

const activities: Others = {
  find: lockActivity,
  remove: deleteActivity,
  update: (sql, customerId, id, columns) => updateActivity(sql, customerId, id, columns),
  restore: async (sql, customerId, id, values, { created_by }) => {
    const reason = await restoreActivity(sql, customerId, id, { ...values, created_by: created_by as EventActor });
    if (reason === 'gone') return { status: 'failed', reason };
    return { status: 'succeeded', ...(reason && { reason, kept: ['external_id'] }) };
  },
};

const kinds = { list: lists, product: products, opportunity: opportunities, activity: activities };

const pick = (values: Values, names: readonly string[]): Values =>
  Object.fromEntries(names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])));

async function lockReferred(sql: Transaction, customerId: string, values: Values): Promise<Set<string>> {
  const references = referencesOf({ ...values, products: values['details'] ?? [] });
  return new Set((await lockReferences(sql, customerId, references)).map(({ id }) => id));
}
