import type { FastifyReply, FastifyRequest } from 'fastify';
import { Gate } from '../../limits/gate.ts';
import { TimeSlice } from '../../process/event-loop.ts';
import type { DomainError, Fault } from '../../errors.ts';
import type { Batch, Outcome, ReadOutcome } from '../../queries/records/batches.ts';
import {
  batchStatuses,
  maxBatchFaults,
  type batchAnswer,
  type BatchAnswer,
  type BatchBody,
  type BatchKind,
  type BatchOperation,
} from '../../schemas/batches.ts';
import { checkItems } from '../../validation/batch-items.ts';
import { cutText } from './fault-list.ts';

/** Validates each item of a batch request, and returns the request as a `Batch`. */
export async function batchOf<T extends BatchOperation>(
  { body, bodyBytes }: Pick<FastifyRequest<{ Body: BatchBody }>, 'body' | 'bodyBytes'>,
  kind: BatchKind,
  operation: T,
): Promise<Omit<Batch, 'operation'> & { operation: T }> {
  const { items, match = 'id', atomic: isAtomic = false, purge: isPurged = false } = body;
  // The body is valid UTF-8, so only a `\\u` escape can produce text that cannot be stored.
  const mayBeUnstorable = bodyBytes.includes(String.raw`\u`);
  return {
    operation,
    match,
    isAtomic,
    isPurged,
    items: await checkItems({ kind, operation, match, mayBeUnstorable }, items),
  };
}

/** Answers with records can have 13 MB. Many at once would block the event loop for other callers. */
const recordAnswers = new Gate({ name: 'record_answers', limit: 2 });

/** Reads records, and sends the answer. Makes its text record by record, with pauses in which other requests are served. */
export async function sendRecords(
  { requester: { customerId, signal } }: FastifyRequest,
  reply: FastifyReply,
  schema: ReturnType<typeof batchAnswer>,
  read: () => Promise<ReadOutcome<object>[]>,
): Promise<FastifyReply> {
  const textOf = reply.compileSerializationSchema(schema.properties.data.properties.results.items);
  return recordAnswers.run({ customerId, signal: signal! }, async () => {
    const { data, ...head } = answerOf(await read());
    const slice = new TimeSlice();
    const parts = [];
    for (const result of data.results) {
      if (slice.isOver) await slice.pause();
      parts.push(Buffer.from(`${parts.length > 0 ? ',' : ''}${textOf(result)}`));
    }
    const [start, end] = [JSON.stringify({ ...head, data: { counts: data.counts } }).slice(0, -2), ']}}'];
    const text = Buffer.concat([Buffer.from(`${start},"results":[`), ...parts, Buffer.from(end)]);
    return reply.type('application/json; charset=utf-8').send(text);
  });
}

export function answerOf(outcomes: readonly (Outcome | ReadOutcome<object>)[]): BatchAnswer {
  const counts = Object.fromEntries(batchStatuses.map((status) => [status, 0])) as BatchAnswer['data']['counts'];
  for (const { status } of outcomes) counts[status] += 1;
  const { failed } = counts;
  const message = failed === 0 ? 'Batch done' : `Batch done, ${failed} of ${outcomes.length} items failed`;
  return { success: failed === 0, message, data: { counts, results: resultsOf(outcomes) } };
}

function resultsOf(outcomes: readonly (Outcome | ReadOutcome<object>)[]): BatchAnswer['data']['results'] {
  let room = maxBatchFaults.inAll;
  return outcomes.map((outcome, index) => {
    if (outcome.status !== 'failed') return { index, ...outcome };
    const faults = outcome.error.faults.slice(0, Math.min(maxBatchFaults.ofItem, room));
    room -= faults.length;
    return { index, status: outcome.status, error: errorOf(outcome.error, faults) };
  });
}

const errorOf = ({ code, message, matchingIds }: DomainError, faults: Fault[]) => ({
  code,
  message: cutText(message),
  ...(faults.length > 0
    ? { errors: faults.map((fault) => ({ path: cutText(fault.path), message: cutText(fault.message) })) }
    : {}),
  ...(matchingIds ? { matching_ids: matchingIds } : {}),
});
