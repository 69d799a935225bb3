import { plainFold } from '../queries/memberships/recount.ts';
import { expectStatus, remember, statusOf, type Caller } from './caller.ts';
import { Difference } from './client.ts';
import { isInvalid, same, type Json, type Match, type Outcome } from './model.ts';

/** Returns a random number of items. */
export type BatchSize = () => number;

interface Recorded {
  id: string | undefined;
  history: string[];
}

interface Batch {
  path: string;
  match: Match | null;
  items: Json[];
}

/**
 * Sends a batch and applies it to the model. The results must be those of the model.
 * @param apply applies one item to the model
 */
export async function sendBatch<T extends Recorded>(
  caller: Caller,
  { path, match, items }: Batch,
  apply: (item: Json) => Outcome<T>,
): Promise<void> {
  const { client, model } = caller;
  const isAtomic = caller.chance(20);
  const body = { items, ...(match === null ? {} : { match }), ...(isAtomic ? { atomic: true } : {}) };
  const answer = await client.send('POST', path, body);
  const outcomes = model.atomically(
    (results) => !isAtomic || results.every(({ status }) => status !== 'failed'),
    () => applyAll(keysOf(caller, path, match, items), items, apply),
  );
  const first = outcomes.find(({ status }) => status === 'failed');
  const request = (i: number) =>
    `${path} (${i + 1} of ${items.length}, ${JSON.stringify({ match, isAtomic })}): ${JSON.stringify(items[i])}`;
  if (isAtomic && first) return expectStatus(answer, statusOf(first), request(outcomes.indexOf(first)));
  expectStatus(answer, 200, request(0));
  const results = answer.body.data.results as Result[];
  for (const [i, outcome] of outcomes.entries()) {
    checkResult(outcome, results[i]!, request(i));
    if (outcome.status === 'failed') continue;
    outcome.record.id ??= results[i]!.id!;
    remember([outcome.record], request(i));
  }
}

/** Applies items one by one. If two valid items name the same record, the later one fails. */
function applyAll<T>(keys: (string | undefined)[], items: Json[], apply: (item: Json) => Outcome<T>): Outcome<T>[] {
  const seen = new Set<string>();
  return items.map((item, i) => {
    const key = keys[i];
    if (key !== undefined && seen.has(key)) return { status: 'failed', code: 'conflict' };
    if (key !== undefined) seen.add(key);
    return apply(item);
  });
}

/** Returns a text for the record that each item names. Two external ids of one record, which was merged, have one text. */
function keysOf({ model }: Caller, path: string, match: Match | null, items: Json[]): (string | undefined)[] {
  return items.map((item) => {
    if (match === null || isInvalid(item)) return undefined;
    if (match !== 'external_id') return keyOf(match, item[match]);
    const found = path.startsWith('/company/')
      ? model.companiesBy(match, item[match])
      : model.contactsBy(match, item[match]);
    return (found[0]?.fields['external_id'] as string | null | undefined) ?? found[0]?.id ?? String(item[match]);
  });
}

const keyOf = (match: Match, value: unknown): string => {
  if (match === 'id') return String(value).toLowerCase();
  return match === 'work_email' ? plainFold(value) : String(value);
};

interface Result {
  status: string;
  id?: string;
  error?: { code: string; message: string };
}

function checkResult(outcome: Outcome<Recorded>, result: Result, request: string): void {
  const isAsMeant =
    outcome.status === 'failed'
      ? result.status === 'failed' && result.error?.code === outcome.code
      : result.status === outcome.status && (outcome.record.id === undefined || same(outcome.record.id, result.id));
  if (isAsMeant) return;
  const meant = outcome.status === 'failed' ? [outcome.code] : [outcome.record.id, ...outcome.record.history];
  throw new Difference(`${request}: ${JSON.stringify(result)} instead of ${outcome.status} ${meant.join('\n  ')}`);
}
