import { spenderOf, type Caller, type Spender } from '../access/credentials.ts';
import { type Database, type Queryable, type Transaction, originOf, rolledBack, setOrigin } from '../database/db.ts';
import { conflict, forbidden, notFound } from '../errors.ts';
import { measureChange, estimateUndo, findEffects, findWriters, type Effect } from '../queries/history/effects.ts';
import { findUndoState } from '../queries/history/undo-state.ts';
import { recordScopes, type Scope } from '../schemas/scopes.ts';
import type { EventNoun, EventSource, UndoEstimate } from '../schemas/events.ts';
import type { JobStarted } from '../schemas/jobs.ts';
import { startJob, type JobCode } from './start-job.ts';
import { isLockTimeout, isStatementTimeout } from '../database/pools.ts';
import { bulkWriters, withDeferredWrites } from '../queries/records/deferred-writes.ts';
import type { Outcome } from '../queries/history/undo-links.ts';
import { countAgain } from '../queries/crm/duplicates.ts';
import { undoOthers } from '../queries/history/undo-others.ts';
import { undoCompanies, undoContacts } from '../queries/history/undo-people.ts';
import { settle, type JobBatch } from './turns.ts';

interface Undo {
  undo_of: string;
  only?: string | undefined;
  /** Position in the journal (the log of changes). The undo ignores journal rows from here on. */
  until: number;
  needs: Scope[];
  /** True if the change has merged records. Its undo cannot be undone. */
  has_merges: boolean;
  source: EventSource;
}

/** Caller who undoes a change. Without `scopes`, the caller may undo everything. */
type Undoer = Spender & { scopes?: readonly Scope[] };

export const undoerOf = (caller: Caller): Undoer => ({
  ...spenderOf(caller),
  ...(caller.kind === 'key' && { scopes: caller.scopes }),
});

const wayBack = { created: 'delete', updated: 'update', deleted: 'create' } as const;

function neededScopes(types: readonly string[]): Scope[] {
  const needed = types.map((type) => {
    const [noun, verb] = type.split('.') as [EventNoun, keyof typeof wayBack];
    return `${recordScopes[noun]}:${wayBack[verb]}` as Scope;
  });
  return [...new Set(needed)].toSorted();
}

/**
 * Checks that a change can be undone, and returns its size and the scopes that the undo needs.
 * @throws DomainError `not_found` if the change has changed no record; `forbidden` if the key lacks a scope; `conflict`
 * if the change cannot be undone, for example because it has not ended
 */
export async function prepareUndo(sql: Queryable, { customerId, scopes }: Undoer, changeId: string, only?: string) {
  // Asked first: what had ended then writes nothing that is not measured.
  const { refusal } = await findUndoState(sql, customerId, changeId, only);
  const { records, types, ...change } = await measureChange(sql, customerId, changeId, only);
  if (records === 0) throw notFound('change');
  const needs = neededScopes(types);
  const lacking = scopes ? needs.filter((scope) => !scopes.includes(scope)) : [];
  if (lacking.length > 0) throw forbidden(lacking);
  if (refusal !== undefined) throw conflict(refusal);
  return { ...change, records, needs };
}

/**
 * Starts a job that undoes a change: one call, job or import.
 * @param only id of the only record to undo
 * @throws DomainError as `prepareUndo`
 */
export async function startUndo(sql: Transaction, by: Undoer, changeId: string, only?: string): Promise<JobStarted> {
  const { records, until, needs, has_merges } = await prepareUndo(sql, by, changeId, only);
  const request: Undo = { undo_of: changeId, only, until, needs, has_merges, source: originOf(sql).source! };
  const free = { cost: 0, reserved: 0 };
  return startJob(sql, by, { type: 'undo', sync_crm: true, request, ...free, total: records, inputs: [] });
}

/**
 * Maximum number of records for which a dry run of the undo is tried. That takes about a second. Larger changes are
 * estimated.
 */
const maxTried = 1_000;

// The dry run locks in another order than single writes. PostgreSQL would find a deadlock after 1 s and fail one of
// those.
/** Milliseconds that a dry run waits for a lock before it gives way to single writes. */
const trialLockMs = 500;
const trialStatementTimeoutMs = 3_000;

interface Kept extends Pick<Effect, 'noun' | 'id'> {
  reason: Outcome['reason'] | undefined;
  fields: readonly string[];
}

const maxNamed = 10;

export const countUndo = async (db: Database, by: Undoer, changeId: string): Promise<UndoEstimate> =>
  (await tryUndo(db, by, changeId)).counts;

/**
 * Counts the records that an undo would restore or keep, by running the undo and rolling it back. Estimates the numbers
 * for a large change, if its records are locked, or if this takes too long.
 * @returns the numbers, and the first records that would be kept; none if the numbers are estimated
 * @throws DomainError as `prepareUndo`
 */
export async function tryUndo(
  db: Database,
  by: Undoer,
  changeId: string,
): Promise<{ counts: UndoEstimate; kept: Kept[] }> {
  const { customerId } = by;
  const { records, until } = await db.search((sql) => prepareUndo(sql, by, changeId));
  const estimate = async () => ({
    counts: await db.search((sql) => estimateUndo(sql, customerId, changeId)),
    kept: [],
  });
  if (records > maxTried) return estimate();
  const trial = rolledBack(
    (work) => bulkWriters.run({ customerId }, () => db.transaction(work)),
    async (sql) => {
      await sql`
        select
          set_config('lock_timeout', ${String(trialLockMs)}, true),
          set_config('statement_timeout', ${String(trialStatementTimeoutMs)}, true)`;
      const counts = { records: 0, restored: 0, kept: 0, conflicts: 0 };
      const named: Kept[] = [];
      for (let before: number | undefined = until; before !== undefined;) {
        const { effects, outcomes } = await undoNext(sql, customerId, { undo_of: changeId, until }, before);
        for (const { id, noun } of effects) {
          const { status, reason, kept = [] } = outcomes.get(id)!;
          counts.records += 1;
          if (status === 'succeeded') counts.restored += 1;
          if (kept.length > 0 || reason === 'changed_since' || reason === 'in_use') counts.kept += 1;
          if (reason === 'taken') counts.conflicts += 1;
          if ((kept.length > 0 || reason !== undefined) && named.length < maxNamed)
            named.push({ noun, id, reason, fields: kept.map(shown) });
        }
        before = effects.at(-1)?.first;
      }
      return { counts, kept: named };
    },
  );
  return trial.catch((error: unknown) => {
    if (isLockTimeout(error) || isStatementTimeout(error)) return estimate();
    throw error;
  });
}

const maxBatchSize = 500;
const reducedBatchSize = 20;
/**
 * Maximum number of opportunities in a batch. It is low, because each can have a thousand lines and a thousand
 * contacts.
 */
const maxOpportunities = 50;

interface Progress {
  /**
   * Journal position from which on all records are done. A record's position is that of its first write by the change.
   */
  before?: number;
  done?: number;
  /** Maximum number of records in a batch. Set after a larger batch took too long. */
  limit?: number;
}

const undoChange: JobBatch = async (context, job) => {
  const request = job.request as Undo;
  const undo = (limit: number) =>
    settle(context, job, async (sql, held) => {
      setOrigin(sql, { source: request.source });
      const { customer_id: customerId } = held;
      const { before = request.until, done = 0 } = (held.progress ?? {}) as Progress;
      const { effects, outcomes } = await undoNext(sql, customerId, request, before, limit);
      const last = effects.at(-1);
      if (!last) {
        if (request.has_merges) await countAgain(sql, customerId);
        return { results: [], mayComplete: true };
      }
      const writers = await writersOf(sql, customerId, effects, outcomes);
      const results = effects.map(({ id }, i) => resultOf(done + i + 1, id, outcomes.get(id)!, writers));
      const progress: Progress = {
        before: last.first,
        done: done + effects.length,
        ...(limit < maxBatchSize && { limit }),
      };
      return { results, progress, mayComplete: false };
    });
  const { limit = maxBatchSize } = (job.progress ?? {}) as Progress;
  await undo(limit).catch((error: unknown) => {
    if (isStatementTimeout(error)) return undo(reducedBatchSize);
    throw error;
  });
};

async function undoNext(
  sql: Transaction,
  customerId: string,
  { undo_of, only, until }: Pick<Undo, 'undo_of' | 'only' | 'until'>,
  before: number,
  limit = maxBatchSize,
): Promise<{ effects: Effect[]; outcomes: Map<string, Outcome> }> {
  const found = await findEffects(sql, customerId, undo_of, { before, until, only, limit });
  const [first] = found;
  const effects = first?.noun === 'opportunity' ? found.slice(0, maxOpportunities) : found;
  if (!first) return { effects, outcomes: new Map() };
  const undo = { contact: undoContacts, company: undoCompanies }[first.noun as string] ?? undoOthers;
  const undoing = { sql, customerId, changeId: undo_of, effects };
  return { effects, outcomes: await withDeferredWrites(sql, customerId, (deferred) => undo({ ...undoing, deferred })) };
}

type Writers = ReadonlyMap<string, Awaited<ReturnType<typeof findWriters>>[number]>;

async function writersOf(
  sql: Transaction,
  customerId: string,
  effects: readonly Effect[],
  outcomes: ReadonlyMap<string, Outcome>,
): Promise<Writers> {
  const kept = effects.filter(({ id }) => outcomes.get(id)?.kept?.length);
  const writers = kept.length === 0 ? [] : await findWriters(sql, customerId, kept);
  return new Map(writers.map((writer) => [`${writer.record_id} ${writer.field}`, writer]));
}

function resultOf(position: number, id: string, { status, reason, restored, kept }: Outcome, writers: Writers) {
  const told = { position, item: id, status, reason: reason ?? null, charged: 0 };
  if (!restored && !kept) return told;
  const keptFields = (kept ?? []).map((field) => {
    const writer = writers.get(`${id} ${field}`);
    return { field: shown(field), actor: writer?.actor ?? null, occurred_at: writer?.occurred_at ?? null };
  });
  return { ...told, result: { restored: (restored ?? []).map(shown), kept: keptFields } };
}

const shown = (field: string): string => (field === 'company_id' ? 'company' : field);

export const undo: JobCode = {
  batch: undoChange,
  // The retry skips records that are already undone.
  remaining: async (_sql, job) => ({ total: job.total, reserved: 0 }),
};
