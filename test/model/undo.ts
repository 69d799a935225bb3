import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expectStatus, remember, type Caller } from './caller.ts';
import { Difference } from './client.ts';
import type { Company, Contact, List, Model } from './model.ts';

/*
 * The changes of a caller, and their undo. A change is taken back if nothing has touched its records since: then they are as
 * before. What an undo keeps of records that were written since is tested in test/jobs.
 */

type Recorded = Contact | Company | List;
type Values = Record<string, unknown>;

/** What one call, import or undo has done. */
interface Change {
  id: string;
  /** All records that changed, also by what happened to others, as they were before and after. Undefined: they were not there. */
  touched: Map<Recorded, { before: Values | undefined; after: Values | undefined }>;
  merged: { added: Model['merged']; before: Model['merged'] };
  isMerge: boolean;
}

interface Row {
  item: string;
  status: string;
  result?: { kept: unknown[] };
}

const setsOf = ({ contacts, companies, lists }: Model): Set<Recorded>[] => [contacts, companies, lists];

function setOf(model: Model, record: Recorded): Set<Recorded> {
  if ('rules' in record) return model.lists;
  return 'lists' in record ? model.contacts : model.companies;
}

const isThere = (model: Model, record: Recorded): boolean =>
  ('isShared' in record && record.isShared) || setOf(model, record).has(record);

const snapshotOf = (model: Model): Map<Recorded, Values> =>
  new Map(setsOf(model).flatMap((records) => [...records].map((record) => [record, { ...record }] as const)));

/** Returns the records that a record refers to. */
const referencesOf = ({ company, lists = [] }: Values): Recorded[] => [
  ...(company ? [company as Company] : []),
  ...(lists as Iterable<List>),
];

/** Number of changes of which one is taken back. Older ones are seldom untouched. */
const remembered = 10;

export class Changes {
  readonly #caller: Caller;
  #changes: Change[] = [];
  /** The change that touched a record last. */
  readonly #latest = new Map<Recorded, Change>();
  readonly done = { undone: 0, records: 0 };

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Runs an operation, and remembers what it has changed. */
  async remembering(operation: (caller: Caller) => Promise<void>, isMerge: boolean): Promise<void> {
    const { client } = this.#caller;
    const begun = new Date().toISOString();
    const change = await this.#noting(() => operation(this.#caller), isMerge);
    const all = [...change.touched];
    // Other callers use these companies, too.
    if (all.some(([, { after }]) => (after?.['company'] as Company | null | undefined)?.isShared)) return;
    const isOwn = ([, { before, after }]: (typeof all)[number]): boolean =>
      Object.keys(after ?? {}).some((name) => name !== 'lists' && before?.[name] !== after![name]);
    // A company or contact that is gone changes others, too.
    const [first] = [...all.filter(([, { before, after }]) => !before || !after), ...all.filter(isOwn)];
    if (!first || !this.#caller.chance(40)) return;
    const filters = { record_id: first[0].id };
    const { body } = await client.send('POST', '/changes/list', { filters, paginate: { limit: 1 } });
    if (body[0].occurred_at < begun) return; // a PATCH with the same values writes nothing
    change.id = body[0].change_id;
    this.#changes = [...this.#changes, change].slice(-remembered);
  }

  /** Takes a random change back, unless something has touched its records since. */
  async undo(): Promise<void> {
    const change = this.#caller.pick(this.#changes);
    if (!change) return;
    this.#changes = this.#changes.filter((one) => one !== change);
    if (!this.#isUntouched(change)) return;
    const { client, model } = this.#caller;
    const request = `undo of ${change.id}`;
    const started = await client.send('POST', `/changes/${change.id}/undo`, {});
    expectStatus(started, 200, request, [...change.touched.keys()]);
    const rows = await this.#resultsOf(started.body.id);
    remember(change.touched.keys(), request);
    const wrong = rows.filter(({ status, result }) => status !== 'succeeded' || (result?.kept ?? []).length > 0);
    if (rows.length === 0 || wrong.length > 0) {
      const known = new Map([...change.touched.keys()].map((record) => [record.id, record]));
      const historyOf = (record: Recorded | undefined) => (record ? describe(record as Contact) : 'not in the model');
      const told = wrong.slice(0, 3).map((row) => `${JSON.stringify(row)} ${historyOf(known.get(row.item))}`);
      throw new Difference(`${request} of ${rows.length} records is not complete: ${told.join('\n  ')}`);
    }
    const own = await this.#noting(async () => this.#takeBack(model, change), false);
    this.done.undone += 1;
    this.done.records += rows.length;
    own.id = started.body.id;
    if (!change.isMerge) this.#changes.push(own);
  }

  /** Notes which records differ from before. */
  async #noting(act: () => Promise<void>, isMerge: boolean): Promise<Change> {
    const { model } = this.#caller;
    const [before, merged] = [snapshotOf(model), [...model.merged]];
    const copies = merged.map((entry) => ({ ...entry }));
    await act();
    const after = snapshotOf(model);
    const added = model.merged.filter((entry) => !merged.includes(entry));
    const change: Change = { id: '', touched: new Map(), merged: { added, before: copies }, isMerge };
    for (const record of new Set([...before.keys(), ...after.keys()])) {
      const [old, now] = [before.get(record), after.get(record)];
      if (old && now && Object.keys(now).every((name) => old[name] === now[name])) continue;
      change.touched.set(record, { before: old, after: now });
      this.#latest.set(record, change);
    }
    return change;
  }

  /** Whether the records are as the change left them, what they referred to is there, and nothing uses what was created. */
  #isUntouched(change: Change): boolean {
    const { model } = this.#caller;
    const { touched } = change;
    const isOwn = (record: Recorded): boolean => touched.has(record) && this.#latest.get(record) === change;
    if (![...touched.keys()].every(isOwn)) return false;
    const before = [...touched.values()].flatMap(({ before: one }) => (one ? [one] : []));
    if (!before.flatMap(referencesOf).every((one) => touched.has(one) || isThere(model, one))) return false;
    const users = setsOf(model).flatMap((records) => [...records]);
    const isCreated = (record: Recorded): boolean => touched.has(record) && touched.get(record)!.before === undefined;
    if (users.some((one) => !isOwn(one) && referencesOf({ ...one }).some(isCreated))) return false;
    const ids = new Set<unknown>(before.map(({ fields }) => (fields as Values | undefined)?.['external_id'] ?? ''));
    return !users.some((one) => !isOwn(one) && 'fields' in one && ids.has(one.fields['external_id'] ?? null));
  }

  #takeBack(model: Model, { touched, merged, isMerge }: Change): void {
    const restored = new Set([...touched].flatMap(([record, { after }]) => (after ? [] : [record])));
    for (const [record, { before, after }] of touched) {
      if (!before) {
        setOf(model, record).delete(record);
        continue;
      }
      // An update takes no contact out of a list, nor into it. What comes back are lists that were deleted.
      const now = new Set((record as Contact).lists);
      const back = [...((before['lists'] ?? []) as Set<List>)].filter((list) => restored.has(list));
      const isPartial = after !== undefined && !isMerge && 'lists' in record;
      Object.assign(record, before, isPartial ? { lists: now.union(new Set(back)) } : {});
      setOf(model, record).add(record);
    }
    const created = [...touched].flatMap(([record, { before }]) => (before ? [] : [record]));
    for (const list of created) if ('rules' in list) model.removeFromList(model.contacts, list);
    if (!isMerge) return;
    model.merged = model.merged.filter((entry) => !merged.added.includes(entry));
    for (const { externalId, record } of merged.before)
      for (const entry of model.merged)
        if (entry.externalId === externalId && touched.has(entry.record)) entry.record = record;
  }

  async #resultsOf(job: string): Promise<Row[]> {
    const { client } = this.#caller;
    const end = performance.now() + 600_000;
    for (;;) {
      const { body } = await client.send('GET', `/service-handler/${job}`);
      if (body.status === 'COMPLETED') break;
      if (performance.now() > end || body.finished_at !== null)
        throw new Difference(`An undo has not ended: ${JSON.stringify(body)}`);
      await sleep(50);
    }
    const rows: Row[] = [];
    for (let cursor: string | null | undefined; cursor !== null;) {
      const paginate = { limit: 100, ...(cursor === undefined ? {} : { cursor }) };
      const { body, headers } = await client.send('POST', `/service-handler/${job}/results`, { paginate });
      rows.push(...(body as Row[]));
      cursor = headers.get('x-next-cursor');
    }
    return rows;
  }
}
