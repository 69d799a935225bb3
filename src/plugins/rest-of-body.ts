import type { IncomingMessage } from 'node:http';
import fp from 'fastify-plugin';

/** Time for the rest of a request body after the response was sent early (ms). Then the connection is closed. */
const lingerMs = 30_000;

/**
 * Reads and drops the rest of a request body if the response is sent before the body is read, for example 413. Otherwise
 * the connection would be reset while its caller, or a proxy such as nginx, still sends the body, and the response would
 * be lost.
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
  raw.resume();
  const timer = setTimeout(() => raw.complete || raw.destroy(), lingerMs).unref();
  raw.once('close', () => clearTimeout(timer));
}
