import { findDueEndpoints } from '../../queries/webhooks/due.ts';
import type { Handler, JobContext } from '../handler.ts';
import { runOneBatch } from '../turns.ts';
import { deliverRounds } from './deliver-rounds.ts';
import { standingOf, type Slot } from './delivery-slots.ts';

/** New endpoints that one turn begins to send to: those of other customers, which may work, come before further ones. */
const mostNew = 2;

/**
 * Begins to send to the endpoints of a customer that have something to get, as far as slots are free. The sending goes
 * on in the background, because it only waits for receivers: a turn is short, however slow they are.
 */
export const deliverWebhooks: Handler<'webhooks'> = async (context, { customerId }) => {
  if (!context.webhooks.box) return;
  const endpoints = await context.db.lookup((sql) => findDueEndpoints(sql, customerId));
  let fresh = 0;
  for (const endpoint of endpoints) {
    const standing = standingOf(endpoint);
    if (standing === 'new' && (fresh += 1) > mostNew) continue;
    const slot = context.webhooks.slots.tryTake(customerId, standing);
    if (!slot) continue;
    const work = deliver(context, customerId, endpoint.id, slot).finally(() => {
      slot.release();
      context.background.delete(work);
    });
    context.background.add(work);
  }
};

/** Sends to one endpoint under its lease. Does nothing if another worker has it. Never rejects. */
async function deliver(context: JobContext, customerId: string, id: string, slot: Slot): Promise<void> {
  try {
    await runOneBatch(context, { queue: 'webhooks', customerId, only: id }, deliverRounds(slot));
  } catch (err) {
    context.log.warn({ err, webhook_id: id }, 'the lease of a webhook could not be taken or released; retrying');
  }
}
