import { spenderOf, type Caller, type Spender } from '../../credentials/caller.ts';
import type { Queryable, Transaction } from '../../database/db.ts';
import { originOf } from '../../database/origin.ts';
import { conflict, forbidden, notFound } from '../../errors.ts';
import { measureChange } from '../../queries/history/effects.ts';
import { estimateUndo } from '../../queries/history/estimate.ts';
import { findUndoState } from '../../queries/history/undo-jobs.ts';
import { recordScopes, type Scope } from '../../schemas/base/scopes.ts';
import type { EventNoun, EventSource } from '../../schemas/events/types.ts';
import type { UndoEstimate } from '../../schemas/events/undo.ts';
import type { JobStarted } from '../../schemas/jobs.ts';
import { startJob } from '../start-job.ts';

/** What a job of the type `undo` does, as stored with it. */
export interface Undo {
  /** Id of the change that it takes back. */
  undo_of: string;
  /** It takes back only what the change has done with this record. */
  only?: string | undefined;
  /** The job reads the change's journal rows below this position. */
  until: number;
  /** The scopes without which a key does not see the job. */
  needs: Scope[];
  /** The change has merged records, so the undo cannot be undone. */
  has_merges: boolean;
  /** How its own changes are told. */
  source: EventSource;
}

/** Who takes a change back. Without scopes: everything is allowed. */
export type Undoer = Spender & { scopes?: readonly Scope[] };

export const undoerOf = (caller: Caller): Undoer => ({
  ...spenderOf(caller),
  ...(caller.kind === 'key' && { scopes: caller.scopes }),
});

/** What takes back what was done. */
const wayBack = { created: 'delete', updated: 'update', deleted: 'create' } as const;

/** @param types of the events of a change */
function neededScopes(types: readonly string[]): Scope[] {
  const needed = types.map((type) => {
    const [noun, verb] = type.split('.') as [EventNoun, keyof typeof wayBack];
    return `${recordScopes[noun]}:${wayBack[verb]}` as Scope;
  });
  return [...new Set(needed)].toSorted();
}

/**
 * Returns what the undo of a change is to do.
 * @throws DomainError `not_found` if it has changed no record; `forbidden` if the key lacks a scope; `conflict` if it has
 *   not ended, or is the undo of a merge
 */
async function prepare(sql: Queryable, { customerId, scopes }: Undoer, changeId: string, only?: string) {
  // Asked first: what had ended then writes nothing that is not measured.
  const { refusal } = await findUndoState(sql, customerId, changeId);
  const { records, types, ...change } = await measureChange(sql, customerId, changeId, only);
  if (records === 0) throw notFound('change');
  const needs = neededScopes(types);
  const lacking = scopes ? needs.filter((scope) => !scopes.includes(scope)) : [];
  if (lacking.length > 0) throw forbidden(lacking);
  if (refusal !== undefined) throw conflict(refusal);
  return { ...change, records, needs };
}

/**
 * Starts a job that takes back what one call, job or import has done.
 * @param only takes back only what was done with this record
 * @throws DomainError as `prepare`
 */
export async function startUndo(sql: Transaction, by: Undoer, changeId: string, only?: string): Promise<JobStarted> {
  const { records, until, needs, has_merges } = await prepare(sql, by, changeId, only);
  const request: Undo = { undo_of: changeId, only, until, needs, has_merges, source: originOf(sql).source! };
  const cost = { pool: 'subscription', cost: 0, reserved: 0 } as const;
  return startJob(sql, by, {
    type: 'undo',
    sync_crm: true,
    request,
    ...cost,
    total: records,
    inputs: [],
  });
}

/**
 * Counts what an undo would do, as far as the history tells.
 * @throws DomainError as `prepare`
 */
export async function countUndo(sql: Queryable, by: Undoer, changeId: string): Promise<UndoEstimate> {
  await prepare(sql, by, changeId);
  return estimateUndo(sql, by.customerId, changeId);
}
