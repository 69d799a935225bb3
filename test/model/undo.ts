import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { describe, expectStatus, remember, type Caller } from './caller.ts';
import { Difference } from './client.ts';
import {
  patched,
  type Company,
  type Contact,
  type Json,
  type Line,
  type List,
  type Model,
  type Opportunity,
  type Product,
} from './model.ts';

/*
 * The changes of a caller, and their undo. What the results of an undo say of each record and field must follow the rules;
 * then it is done in the model, and the comparison of everything shows whether it is true.
 */

type Noun = 'contacts' | 'companies' | 'lists' | 'products' | 'opportunities';
type Recorded = Contact | Company | List | Product | Opportunity;
type Values = Record<string, unknown>;

interface Effect {
  record: Recorded;
  kind: 'created' | 'updated' | 'deleted';
  before: Values;
  after: Values;
}

/** What one call, import or undo has done. */
interface Change {
  id: string;
  effects: Effect[];
  /** All records that changed, also by what happened to others, as they were before. */
  touched: Map<Recorded, Values>;
  merged: { added: Model['merged']; before: Model['merged'] };
  isMerge: boolean;
  isUndo: boolean;
}

interface Row {
  item: string;
  status: 'succeeded' | 'skipped' | 'failed';
  reason: string | null;
  result?: { restored: string[]; kept: { field: string }[] };
}

function nounOf(record: Recorded): Noun {
  if ('lines' in record) return 'opportunities';
  if ('rules' in record) return 'lists';
  if ('lists' in record) return 'contacts';
  return 'isShared' in record ? 'companies' : 'products';
}

const recordsOf = (model: Model, noun: Noun): Set<Recorded> => model[noun];

const isThere = (model: Model, record: Recorded): boolean =>
  ('isShared' in record && record.isShared) || recordsOf(model, nounOf(record)).has(record);

const snapshotOf = (model: Model): Map<Recorded, Values> =>
  new Map(
    [model.contacts, model.companies, model.lists, model.products, model.opportunities].flatMap((records) =>
      [...records].map((record) => [record, { ...record }] as const),
    ),
  );

const custom = 'custom_fields.';

/** Returns the members of a record that people set, each custom field by itself. */
function fieldsOf(values: Values): Values {
  const { id: _id, history: _history, isShared: _shared, lists: _lists, fields = {}, ...own } = values;
  const { custom_fields: keys = {}, ...plain } = fields as Json;
  const all = Object.entries(keys as Json).map(([key, value]) => [custom + key, value]);
  return { ...plain, ...own, ...Object.fromEntries(all) };
}

/** Members of opportunities are named otherwise in results. */
const shownNames: Record<string, string> = { contacts: 'contacts_ids', lines: 'details' };

const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null && 'history' in value;

/** Whether two values of a field are equal. Records are the same, not alike. */
function isSame(one: unknown, other: unknown): boolean {
  const [a, b] = [one ?? null, other ?? null];
  if (a === b) return true;
  if (isRecord(a) || isRecord(b)) return false;
  if (!Array.isArray(a) || !Array.isArray(b)) return isDeepStrictEqual(a, b);
  if (a.some(isRecord) || b.some(isRecord)) return a.length === b.length && a.every((member, i) => member === b[i]);
  return isDeepStrictEqual(a.map(plainLine), b.map(plainLine));
}

/** Of a line of an opportunity, its product counts by its id. */
const plainLine = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || !('product' in value)) return value;
  const { product, price, quantity } = value as Line;
  return `${product.id} ${price} ${quantity}`;
};

const differing = (before: Values, after: Values): string[] =>
  [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => !isSame(before[name], after[name]));

/** Number of changes of which one is taken back. */
const remembered = 40;

export class Changes {
  readonly #caller: Caller;
  #changes: Change[] = [];
  /** What touched a record last. */
  readonly #latest = new Map<Recorded, object>();
  readonly #deletedBy = new Map<Recorded, object>();
  /** The deleted companies of contacts and opportunities that have no other company since. */
  readonly #former = new Map<Recorded, Company>();
  /** The lists of contacts that were deleted while the contacts were in them. */
  readonly #hidden = new Map<Recorded, Set<List>>();
  /** Records that a merge touched. Whether they were written since is not known. */
  readonly #blurred = new Set<Recorded>();
  readonly done = { undone: 0, records: 0, restored: 0, kept: 0, unclear: 0 };

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Runs an operation, and remembers what it has changed. */
  async remembering(operation: (caller: Caller) => Promise<void>, isMerge: boolean): Promise<void> {
    const { model } = this.#caller;
    const [before, merged] = [snapshotOf(model), model.merged.map((entry) => ({ ...entry }))];
    const entries = new Set(model.merged);
    await operation(this.#caller);
    const change = this.#note(before, isMerge);
    if (change.effects.length === 0 || this.#namesShared(change) || !this.#caller.chance(40)) return;
    change.merged = { added: model.merged.filter((entry) => !entries.has(entry)), before: merged };
    const id = await this.#idOf(change);
    if (id === undefined) this.done.unclear += 1;
    else this.#keep({ ...change, id });
  }

  /** Takes a random change back. */
  async undo(): Promise<void> {
    const change = this.#caller.pick(this.#changes);
    if (!change || (change.isMerge && [...change.touched.keys()].some((record) => this.#latest.get(record) !== change)))
      return;
    const { client, model } = this.#caller;
    const request = `undo of ${change.id}`;
    const started = await client.create(`/changes/${change.id}/undo`, {});
    expectStatus(
      started,
      200,
      request,
      change.effects.map(({ record }) => record),
    );
    const rows = await this.#resultsOf(started.body.id);
    for (const { record, kind } of change.effects)
      remember([record], `${request}: ${kind}, ${JSON.stringify(rows.get(record.id!))}`);
    const before = snapshotOf(model);
    if (change.isMerge) this.#takeMergeBack(change);
    else await this.#takeBack(change, rows);
    const own = this.#note(before, false);
    this.done.undone += 1;
    this.done.records += rows.size;
    if (change.isMerge) this.#changes = this.#changes.filter((one) => one !== change);
    else if (own.effects.length > 0) this.#keep({ ...own, id: started.body.id, isUndo: true });
  }

  /** Finds what differs from before. */
  #note(before: Map<Recorded, Values>, isMerge: boolean): Change {
    const after = snapshotOf(this.#caller.model);
    const change: Change = {
      id: '',
      effects: [],
      touched: new Map(),
      merged: { added: [], before: [] },
      isMerge,
      isUndo: false,
    };
    const gone = (record: unknown): boolean => before.has(record as Recorded) && !after.has(record as Recorded);
    const isNew = (record: unknown): boolean => !before.has(record as Recorded) && after.has(record as Recorded);
    for (const record of new Set([...before.keys(), ...after.keys()])) {
      const [old, now] = [before.get(record), after.get(record)];
      if (old && now && Object.keys(now).every((name) => old[name] === now[name])) continue;
      const [was, is] = [fieldsOf(old ?? {}), fieldsOf(now ?? {})];
      change.touched.set(record, old ?? {});
      this.#latest.set(record, change);
      if (isMerge) this.#blurred.add(record);
      const former = this.#former.get(record);
      if (is['company']) this.#former.delete(record);
      else if (now && gone(was['company'])) this.#former.set(record, was['company'] as Company);
      const kind = !old ? 'created' : now ? 'updated' : 'deleted';
      if (kind === 'deleted') this.#deletedBy.set(record, change);
      for (const list of (old?.['lists'] ?? []) as Set<List>) if (gone(list)) this.#hide(record, list);
      // What follows from the deletion of another record, or from its undo, is not a change of this one.
      const follows = (name: string): boolean =>
        (name === 'company' && (gone(was[name]) || (former !== undefined && former === is[name]))) ||
        (name === 'contacts' && ((was[name] as Contact[]).some(gone) || (is[name] as Contact[]).some(isNew)));
      if (kind === 'updated' && differing(was, is).every(follows)) continue;
      change.effects.push({ record, kind, before: { ...old }, after: { ...now } });
    }
    return change;
  }

  /** Other callers use these companies, too. */
  #namesShared = ({ effects }: Change): boolean =>
    effects.some(({ after: { company } }) => (company as Company | null | undefined)?.isShared);

  #keep(change: Change): void {
    for (const record of change.touched.keys()) this.#latest.set(record, change);
    for (const { record, kind } of change.effects) if (kind === 'deleted') this.#deletedBy.set(record, change);
    this.#changes = [...this.#changes, change].slice(-remembered);
  }

  /** Returns undefined if the operation was several calls. */
  async #idOf({ effects, isMerge }: Change): Promise<string | undefined> {
    const { client } = this.#caller;
    const filters = { record_id: effects[0]!.record.id };
    const { body: newest } = await client.send('POST', '/changes/list', { filters, paginate: { limit: 1 } });
    const id = newest[0]?.change_id as string | undefined;
    if (id === undefined || isMerge) return id;
    const { body } = await client.send('GET', `/changes/${id}`);
    const counts = Object.values(body.counts as Record<string, Record<string, number>>);
    const told = counts.flatMap((count) => Object.values(count)).reduce((sum, one) => sum + one, 0);
    return told === effects.length ? id : undefined;
  }

  async #resultsOf(job: string): Promise<Map<string, Row>> {
    const { client } = this.#caller;
    const end = performance.now() + 600_000;
    for (;;) {
      const { body } = await client.send('GET', `/service-handler/${job}`);
      if (body.status === 'COMPLETED') break;
      if (performance.now() > end || body.finished_at !== null)
        throw new Difference(`An undo has not ended: ${JSON.stringify(body)}`);
      await sleep(50);
    }
    const rows = new Map<string, Row>();
    let cursor: string | undefined;
    do {
      const paginate = { limit: 100, ...(cursor === undefined ? {} : { cursor }) };
      const { body, headers } = await client.send('POST', `/service-handler/${job}/results`, { paginate });
      for (const row of body as Row[]) {
        if (rows.has(row.item)) throw new Difference(`Two results of one record: ${JSON.stringify(row)}`);
        rows.set(row.item, row);
      }
      cursor = headers.get('x-next-cursor') ?? undefined;
    } while (cursor !== undefined);
    return rows;
  }

  /** Nothing has touched the records since, so they are as before. */
  #takeMergeBack({ touched, merged }: Change): void {
    const { model } = this.#caller;
    for (const [record, values] of touched) {
      Object.assign(record, values);
      recordsOf(model, nounOf(record)).add(record);
    }
    model.merged = model.merged.filter((entry) => !merged.added.includes(entry));
    for (const { externalId, record } of merged.before)
      for (const entry of model.merged)
        if (entry.externalId === externalId && touched.has(entry.record)) entry.record = record;
  }

  async #takeBack(change: Change, rows: ReadonlyMap<string, Row>): Promise<void> {
    const { effects } = change;
    const known = new Set(effects.map(({ record }) => record.id));
    const missing = effects.filter(({ record }) => !rows.has(record.id!));
    if (missing.length > 0 || [...rows.keys()].some((item) => !known.has(item))) {
      const told = missing.map(({ record, kind, before, after }) => {
        const names = differing(fieldsOf(before), fieldsOf(after)).slice(0, 5);
        return `${kind} ${names.join()}: ${describe(record as Contact)}`;
      });
      const more = [...rows.values()].filter(({ item }) => !known.has(item));
      throw new Difference(
        `${rows.size} results of ${effects.length} records, not of ${told.slice(0, 3).join('\n  ')}\n, but of ${JSON.stringify(more.slice(0, 3))}`,
      );
    }
    const made = new Set(effects.flatMap(({ record, kind }) => (kind === 'created' ? [record] : [])));
    const { model } = this.#caller;
    const now = snapshotOf(model);
    const rowOf = ({ record, kind }: Effect): Row => {
      const row = rows.get(record.id!);
      if (!row) throw new Difference(`No result of a record that was ${kind}: ${describe(record as Contact)}`);
      return row;
    };
    const all = (wanted: Effect['kind']) => effects.filter(({ kind }) => kind === wanted);
    for (const effect of all('updated')) this.#revert(effect, rowOf(effect), now.get(effect.record));
    for (const effect of all('created')) this.#removeAgain(change, effect, rowOf(effect), made);
    for (const effect of all('deleted')) await this.#restore(change, effect, rowOf(effect));
  }

  #removeAgain({ isUndo }: Change, { record, after }: Effect, row: Row, made: ReadonlySet<Recorded>): void {
    const { model } = this.#caller;
    const fail = (what: string): never => {
      throw new Difference(`Undo of a creation: ${what}, ${JSON.stringify(row)}\n  ${describe(record as Contact)}`);
    };
    if (!isThere(model, record))
      return row.status === 'skipped' && row.reason === 'gone' ? undefined : fail('it is gone');
    const [then, now] = [fieldsOf(after), fieldsOf({ ...record })];
    const isWritten = differing(then, now).some((name) => {
      if (name === 'company' && now[name] === null && this.#former.get(record) === then[name]) return false;
      if (name !== 'contacts') return true;
      return !isSame(
        (then[name] as Contact[]).filter((one) => isThere(model, one)),
        now[name],
      );
    });
    // A company that went since counts as a change only if something has written the field in between.
    const isDetached = 'company' in now && now['company'] === null && then['company'] !== null;
    // What the change has made with a company, and the undo keeps, may hold the company, too.
    const users = [...model.contacts, ...model.opportunities].filter((one) => one.company === record);
    const isUsed = users.some((one) => !made.has(one));
    const isKnown = !this.#blurred.has(record);
    if (row.status === 'succeeded') {
      if (isKnown && isWritten) fail('it was written since');
      if (isKnown && isUsed && !isUndo) fail('others belong to it');
      this.#remove(record);
    } else if (
      row.reason === 'changed_since'
        ? isKnown && !isWritten && !isDetached
        : row.reason !== 'in_use' || (isKnown && users.length === 0)
    )
      fail('there is no reason to keep it');
  }

  #remove(record: Recorded): void {
    const { model } = this.#caller;
    const noun = nounOf(record);
    if (noun === 'contacts') model.deleteContact(record as Contact);
    else if (noun === 'companies') model.deleteCompany(record as Company);
    else if (noun === 'lists') model.deleteList(record as List);
    else recordsOf(model, noun).delete(record);
  }

  async #restore(change: Change, { record, before }: Effect, row: Row): Promise<void> {
    const { model } = this.#caller;
    const fail = (what: string): never => {
      throw new Difference(`Undo of a deletion: ${what}, ${JSON.stringify(row)}\n  ${describe(record as Contact)}`);
    };
    if (isThere(model, record)) return row.status === 'skipped' ? undefined : fail('it stands already');
    if (this.#deletedBy.get(record) !== change)
      return row.status === 'succeeded' ? fail('it was deleted again since') : undefined;
    if (row.status !== 'succeeded') fail('it can be restored');
    const noun = nounOf(record);
    Object.assign(record, before);
    // Its company may have been deleted before it, and restored since.
    if ('company' in record) record.company ??= this.#former.get(record) ?? null;
    if ('company' in record && record.company && !isThere(model, record.company)) {
      this.#former.set(record, record.company);
      record.company = null;
    }
    if ('lists' in record) {
      for (const list of record.lists) if (!model.lists.has(list)) this.#hide(record, list);
      record.lists = new Set([...record.lists].filter((list) => model.lists.has(list)));
    }
    if ('lines' in record) record.contacts = record.contacts.filter((one) => model.contacts.has(one));
    if ('fields' in record && row.result?.kept.some(({ field }) => field === 'external_id')) {
      const { external_id: wanted } = record.fields;
      if (![...recordsOf(model, noun)].some((one) => (one as Contact).fields['external_id'] === wanted))
        fail('its id is free');
      record.fields = { ...record.fields, external_id: null };
    }
    recordsOf(model, noun).add(record);
    if (noun === 'companies')
      for (const one of [...model.contacts, ...model.opportunities])
        if (one.company === null && this.#former.get(one) === record) one.company = record as Company;
    for (const list of this.#hidden.get(record) ?? []) if (model.lists.has(list)) await this.#readMember(record, list);
    // Where it comes again depends on what happened with the order since.
    if (noun === 'contacts')
      for (const [opportunity, values] of change.touched)
        if (
          'lines' in opportunity &&
          model.opportunities.has(opportunity) &&
          (values['contacts'] as Contact[]).includes(record as Contact)
        )
          await this.#readContacts(opportunity, record as Contact);
    if (noun === 'lists')
      for (const contact of model.contacts)
        if (this.#hidden.get(contact)?.has(record as List)) await this.#readMember(contact, record as List);
  }

  /** Whether a contact is in a list again depends on what happened with its lists since. */
  async #readMember(record: Recorded, list: List): Promise<void> {
    const contact = record as Contact;
    const { body } = await this.#caller.client.send('GET', `/contacts/${contact.id}`);
    if (body.list_ids.includes(list.id)) contact.lists = contact.lists.union(new Set([list]));
  }

  /** The contact comes back into a list that is deleted now, if the list comes back. */
  #hide(record: Recorded, list: List): void {
    this.#hidden.set(record, (this.#hidden.get(record) ?? new Set()).add(list));
  }

  async #readContacts(opportunity: Opportunity, restored: Contact): Promise<void> {
    const { client, model } = this.#caller;
    const { body } = await client.send('GET', `/opportunities/${opportunity.id}`);
    const known = new Map([...model.contacts].map((contact) => [contact.id, contact]));
    const shown = (body.contacts_ids as string[]).flatMap((id) => known.get(id) ?? []);
    if (!shown.includes(restored)) throw new Difference(`A contact has not come back: ${JSON.stringify(body)}`);
    opportunity.contacts = shown;
  }

  #revert({ record, before, after }: Effect, row: Row, current: Values | undefined): void {
    const { model } = this.#caller;
    const fail = (what: string): never => {
      throw new Difference(`Undo of an update: ${what}, ${JSON.stringify(row)}\n  ${describe(record as Contact)}`);
    };
    if (!current) return row.status === 'failed' && row.reason === 'gone' ? undefined : fail('it is gone');
    const [was, then, now] = [before, after, current].map(fieldsOf) as [Values, Values, Values];
    const restored = new Set(row.result?.restored);
    const kept = new Set(row.result?.kept.map(({ field }) => field));
    for (const name of differing(was, then)) {
      const shown = shownNames[name] ?? name;
      if (restored.has(shown)) {
        if (!isSame(now[name], then[name])) fail(`${name} was written since`);
        this.done.restored += 1;
        this.#set(record, name, was[name]);
      } else if (kept.has(shown)) {
        this.done.kept += 1;
        if (isSame(now[name], then[name]) && !this.#mayBeKept(model, record, name, was[name]))
          fail(`${name} can be restored`);
      } else if (!isSame(now[name], was[name])) fail(`${name} is not named`);
    }
  }

  /** Whether a field may be kept although nobody has written it: what it would refer to is gone, or it is taken. */
  #mayBeKept(model: Model, record: Recorded, name: string, old: unknown): boolean {
    if (name === 'external_id')
      return [...recordsOf(model, nounOf(record))].some(
        (one) => one !== record && (one as Contact).fields['external_id'] === old,
      );
    if (name === 'company') return old !== null && !isThere(model, old as Company);
    if (name === 'contacts') return (old as Contact[]).some((one) => !isThere(model, one));
    return name === 'lines' && (old as Line[]).some(({ product }) => !isThere(model, product));
  }

  #set(record: Recorded, name: string, value: unknown): void {
    const { model } = this.#caller;
    if (name === 'contacts')
      (record as Opportunity).contacts = (value as Contact[]).filter((one) => model.contacts.has(one));
    else if (name in record) Object.assign(record, { [name]: value });
    else if (name.startsWith(custom)) {
      const one = record as Contact;
      one.fields = patched(one.fields, { custom_fields: { [name.slice(custom.length)]: value ?? null } });
    } else (record as Contact).fields = { ...(record as Contact).fields, [name]: value };
  }
}
