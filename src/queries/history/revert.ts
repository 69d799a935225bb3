import { isSame } from '../events/changes.ts';
import type { Effect, Values } from './effects.ts';

/** Why a record, or a field of it, was not restored. */
export type KeptReason = 'changed_since' | 'taken' | 'in_use' | 'gone';

/** What became of a record. */
export interface Outcome {
  status: 'succeeded' | 'skipped' | 'failed';
  reason?: KeptReason;
  restored?: string[];
  kept?: string[];
}

/** Columns that get their values from before, and names of fields. Custom fields are named each by itself. */
export interface Reverted {
  columns: Values;
  restored: string[];
  kept: string[];
  /** Why fields are kept. */
  reason: KeptReason;
}

/**
 * Takes a change of a record back: each field gets its value from before if it still has the one that the change gave
 * it. A field that has its value from before already is neither restored nor kept. That a person asked to be removed is
 * never taken back.
 * @param current columns of the record
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
    if (name !== 'custom_fields' && name !== 'removal_requested_at') take(current, name, name, reverted.columns);
  const keys = new Set([...Object.keys(customOf(before)), ...Object.keys(customOf(after))]);
  const custom = { ...customOf(current) };
  const restored = reverted.restored.length;
  for (const key of keys) take(customOf(current), `custom_fields.${key}`, key, custom);
  if (reverted.restored.length > restored) reverted.columns['custom_fields'] = custom;
  return reverted;
}

const customOf = (values: Values): Values => (values['custom_fields'] as Values | undefined) ?? {};

const prefix = 'custom_fields.';

const fieldOf = (values: Values, field: string): unknown =>
  field.startsWith(prefix) ? customOf(values)[field.slice(prefix.length)] : values[field];

/** Keeps a field although it has the value that the change gave it. */
export function keep(reverted: Reverted, name: string, reason: KeptReason = reverted.reason): void {
  reverted.reason = reason;
  delete reverted.columns[name];
  reverted.restored = reverted.restored.filter((field) => field !== name);
  reverted.kept.push(name);
}

/** Gives a field its value from before although it has not the value that the change gave it. */
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
