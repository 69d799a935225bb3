import { setOrigin } from '../../database/origin.ts';
import type { Transaction } from '../../database/db.ts';
import type { NewResult } from '../../queries/jobs/jobs.ts';
import { lockBulk } from '../../queries/records/bulk-lock.ts';
import { withLastWrites } from '../../queries/records/last-writes.ts';
import { findEffects, findWriters, type Effect } from '../../queries/history/effects.ts';
import type { Outcome } from '../../queries/history/revert.ts';
import { undoOther } from '../../queries/history/undo-others.ts';
import { undoCompanies, undoContacts } from '../../queries/history/undo-people.ts';
import { settle } from '../settle.ts';
import type { JobBatch } from '../turns.ts';
import type { Undo } from './start-undo.ts';

/** Contacts or companies that one transaction takes back. */
const maxBatchSize = 500;

/** Other records, which are taken back one by one: batches of the customer wait meanwhile. */
const maxOthers = 50;

interface Progress {
  /** Records whose first write is at this position or later are done. */
  before?: number;
  done?: number;
}

/** Takes back what a change has done with its next records. */
export const undoChange: JobBatch = async (context, job) => {
  const { undo_of, only, until, source } = job.request as Undo;
  await settle(context, job, async (sql, held) => {
    setOrigin(sql, { source });
    const { customer_id: customerId } = held;
    const { before = until, done = 0 } = (held.progress ?? {}) as Progress;
    const found = await findEffects(sql, customerId, undo_of, { before, until, only, limit: maxBatchSize });
    const effects = isOfPeople(found) ? found : found.slice(0, maxOthers);
    const last = effects.at(-1);
    if (!last) return { results: [], mayComplete: true };
    const outcomes = await undoAll(sql, customerId, undo_of, effects);
    const writers = await writersOf(sql, customerId, outcomes);
    const results = effects.map(({ id }, i) => resultOf(done + i + 1, id, outcomes.get(id)!, writers));
    return { results, progress: { before: last.first, done: done + effects.length }, mayComplete: false };
  });
};

const isOfPeople = ([first]: readonly Effect[]): boolean => first?.noun === 'contact' || first?.noun === 'company';

/** @param effects those of records of one kind */
async function undoAll(
  sql: Transaction,
  customerId: string,
  changeId: string,
  effects: readonly Effect[],
): Promise<Map<string, Outcome>> {
  if (isOfPeople(effects)) {
    const undo = effects[0]!.noun === 'contact' ? undoContacts : undoCompanies;
    return withLastWrites(sql, customerId, (last) => undo({ sql, customerId, changeId, effects, last }));
  }
  await lockBulk(sql, customerId);
  const outcomes = new Map<string, Outcome>();
  for (const effect of effects) outcomes.set(effect.id, await undoOther(sql, customerId, effect));
  return outcomes;
}

type Writers = ReadonlyMap<string, Awaited<ReturnType<typeof findWriters>>[number]>;

async function writersOf(
  sql: Transaction,
  customerId: string,
  outcomes: ReadonlyMap<string, Outcome>,
): Promise<Writers> {
  const ids = [...outcomes].flatMap(([id, { kept = [] }]) => (kept.length > 0 ? [id] : []));
  const writers = ids.length === 0 ? [] : await findWriters(sql, customerId, ids);
  return new Map(writers.map((writer) => [`${writer.record_id} ${writer.field}`, writer]));
}

function resultOf(
  position: number,
  id: string,
  { status, reason, restored, kept }: Outcome,
  writers: Writers,
): NewResult {
  const told = { position, item: id, status, reason: reason ?? null, charged: 0 };
  if (!restored && !kept) return told;
  const keptFields = (kept ?? []).map((field) => {
    const writer = writers.get(`${id} ${field}`);
    return { field: shown(field), actor: writer?.actor ?? null, occurred_at: writer?.occurred_at ?? null };
  });
  return { ...told, result: { restored: (restored ?? []).map(shown), kept: keptFields } };
}

/** Responses show the company of a contact under this name. */
const shown = (field: string): string => (field === 'company_id' ? 'company' : field);
