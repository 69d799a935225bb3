import { hasEmail } from '../catalog/document.ts';
import { nextInputs, type JobInput, type JobRow, type NewResult } from '../queries/jobs.ts';
import { insertUnlocks } from '../queries/unlocks.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { settle } from './settle.ts';
import type { Slice } from './turns.ts';

/** Inputs of a slice. */
const sliceSize = 200;

/** Unlocks the prospects that a customer has named, in the order in which they were given. */
export const unlockSelectedContacts: Slice = async (context, job) => {
  const { db, catalog } = context;
  const { position: after } = (job.progress ?? { position: 0 }) as { position: number };
  const inputs = await db.lookup((sql) => nextInputs(sql, job.customer_id, job.id, { after, limit: sliceSize }));
  const wanted = inputs.filter((input) => !input.is_duplicate).map(({ item }) => item);
  const found = new Map((await catalog.find(wanted)).map((prospect) => [prospect._id, prospect]));
  await settle(context, job, async (sql, held) => {
    const come = new Set(await insertUnlocks(sql, held.customer_id, [...found.keys()]));
    const results = inputs.map((input) => resultOf(held, input, found.get(input.item), come));
    return { results, progress: { position: inputs.at(-1)?.position ?? after }, isLast: false };
  });
  await catalog.syncUnlocks([...found.keys()]);
  if (inputs.length === sliceSize) return;
  await catalog.refresh();
  await settle(context, job, async () => ({ results: [], isLast: true }));
};

function resultOf(job: JobRow, input: JobInput, prospect: Prospect | undefined, come: Set<string>): NewResult {
  const { position, item } = input;
  if (input.is_duplicate) return { position, item, status: 'skipped', reason: 'duplicate', charged: 0 };
  if (!prospect) return { position, item, status: 'failed', reason: 'not_found', charged: 0 };
  if (!come.has(item)) return { position, item, status: 'skipped', reason: 'already_unlocked', charged: 0 };
  return { position, item, status: 'succeeded', charged: hasEmail(prospect) ? job.cost : 0, result: prospect };
}
