import { parentPort } from 'node:worker_threads';
import { gzipSync } from 'node:zlib';
import renderer from '@scalar/fastify-api-reference';
import fastify from 'fastify';

// The body of a thread: sends the script of the documentation, compressed. The package only has it as a route.
const app = fastify();
await app.register(renderer, { routePrefix: '/docs', configuration: { url: '/openapi.json' } });
const { rawPayload } = await app.inject('/docs/js/scalar.js');
parentPort!.postMessage(gzipSync(rawPayload)); // eslint-disable-line unicorn/require-post-message-target-origin -- no window
await app.close();
