import type { FastifyReply, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { TimeSlice } from '../../process/event-loop.ts';

/** The parts of a JSON schema that say how its text is made in pieces. */
interface Schema {
  [key: string]: unknown;
  type?: unknown;
  items?: Schema;
  properties?: Record<string, Schema>;
}

/**
 * Fastify plugin that makes the JSON text of a response that has many records record by record. A large response is made
 * in several steps, so that it does not block the event loop. Applies to arrays and to responses of batches.
 */
export default fp(
  async (app) => {
    app.addHook('preSerialization', (request, reply, payload, done) => {
      const schema = schemaOf(request, reply);
      if (!schema || !(Array.isArray(payload) || request.routeOptions.config.isBatch)) return done(null, payload);
      const send = (text: string | Buffer): void => {
        reply.serializer((made) => made as string); // the text is not serialised again
        done(null, text);
      };
      const pieces = piecesOf(reply, schema, payload);
      const slice = new TimeSlice();
      try {
        const { text, isWhole } = join(pieces, slice);
        if (isWhole) return send(text);
        request.isAnswered = true;
        return void joinRest(text, pieces, slice, reply).then(send, done);
      } catch (error) {
        return done(error as Error);
      }
    });
  },
  { name: 'response-pieces', dependencies: ['requester'] },
);

function schemaOf({ routeOptions }: FastifyRequest, { statusCode }: FastifyReply): Schema | undefined {
  const responses = routeOptions.schema?.response as Record<number, Schema> | undefined;
  return statusCode < 400 ? responses?.[statusCode] : undefined;
}

/** Yields the JSON text of a value. An array is divided into its items, wherever it is in nested objects. */
function* piecesOf(reply: FastifyReply, schema: Schema, value: unknown): Generator<string, void> {
  if (Array.isArray(value)) {
    const textOf = reply.compileSerializationSchema(schema.items!);
    let before = '[';
    for (const item of value) {
      yield before + textOf(item);
      before = ',';
    }
    yield value.length > 0 ? ']' : '[]';
  } else if (hasArray(schema)) {
    let before = '{';
    for (const [key, member] of Object.entries(schema.properties!)) {
      const inner = (value as Record<string, unknown>)[key];
      if (inner === undefined) continue;
      yield `${before}${JSON.stringify(key)}:`;
      yield* piecesOf(reply, member, inner);
      before = ',';
    }
    yield before === '{' ? '{}' : '}';
  } else yield reply.compileSerializationSchema(schema)(value as Record<string, unknown>);
}

const hasArray = ({ type, properties }: Schema): boolean =>
  type === 'array' || (properties !== undefined && Object.values(properties).some(hasArray));

/** Joins pieces until there are no more or the time slice is over. `isWhole` is true if there are no more. */
function join(pieces: Iterator<string, void>, slice: TimeSlice): { text: string; isWhole: boolean } {
  let text = '';
  while (!slice.isOver) {
    const { done, value } = pieces.next();
    if (done) return { text, isWhole: true };
    text += value;
  }
  return { text, isWhole: false };
}

/** Joins the remaining pieces, with a pause after each time slice. Ends early if the caller has hung up. */
async function joinRest(
  text: string,
  pieces: Iterator<string, void>,
  slice: TimeSlice,
  { raw }: FastifyReply,
): Promise<Buffer> {
  const parts = [Buffer.from(text)];
  for (let isWhole = false; !isWhole && !raw.destroyed;) {
    await slice.pause();
    const next = join(pieces, slice);
    parts.push(Buffer.from(next.text));
    isWhole = next.isWhole;
  }
  return Buffer.concat(parts);
}
