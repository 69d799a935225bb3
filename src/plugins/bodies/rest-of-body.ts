import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import fp from 'fastify-plugin';
import { yieldToEventLoop } from '../../process/event-loop.ts';

/**
 * Maximum time to receive the rest of a request body after the response was sent (ms). After this time the connection
 * is closed.
 */
const lingerMs = 30_000;

/**
 * Fastify plugin that reads and discards the rest of a request body if the response (for example 413) is sent before
 * the body has arrived completely. Otherwise the connection would be reset, and the caller would lose the response.
 */
export default fp(
  async (app) => {
    app.addHook('onSend', ({ raw }, _reply, payload, done) => {
      if (!raw.readableEnded && hasBody(raw)) discardRest(raw);
      done(null, payload);
    });
  },
  { name: 'rest-of-body' },
);

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;

function discardRest(raw: IncomingMessage): void {
  raw.unpipe(); // a parser of a form that is no longer read would hold the rest back
  // Node.js reads up to 2 MiB of each connection in one round of the event loop. Many callers who send large bodies
  // together would block all others.
  raw.on('data', () => {
    raw.pause();
    void yieldToEventLoop().then(() => raw.resume());
  });
  raw.resume(); // after `unpipe` it does not flow by itself
  keepOpen(raw, raw.socket);
  const timer = setTimeout(() => raw.complete || raw.socket.destroy(), lingerMs).unref();
  raw.once('end', () => clearTimeout(timer));
}

/**
 * If the connection is to be closed after the response (`Connection: close`), Node.js closes it at once with
 * `destroySoon`, even if the body still arrives. Closes only the direction to the caller instead, and the rest when the
 * body has arrived.
 */
function keepOpen(raw: IncomingMessage, socket: Socket): void {
  const close = socket.destroySoon;
  socket.destroySoon = () => {
    if (raw.complete) return close.call(socket);
    socket.end();
    raw.once('end', () => close.call(socket));
  };
  raw.once('end', () => (socket.destroySoon = close));
}
