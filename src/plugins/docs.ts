import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { plugin } from './plugin.ts';

const access = { public: true } as const;

/**
 * Fastify plugin that serves the interactive documentation of the API at `/docs`, without authentication. All files
 * come from this service, so the documentation also works offline.
 */
export default plugin({ name: 'docs', dependencies: ['openapi'] }, async (app) => app.register(documentation));

const asset = (name: string): Buffer => readFileSync(new URL(`docs/${name}`, import.meta.url));

function readable(): Record<string, Buffer> {
  const overview = asset('llms.txt'); // see llmstxt.org
  const page = (name: string): Buffer => readFileSync(new URL(`../../docs/${name}`, import.meta.url));
  return {
    '/llms.txt': overview,
    '/docs/llms.txt': overview,
    '/docs/api.md': page('api.md'),
    '/docs/agents.md': page('agents.md'),
  };
}

const mediaTypeOf = (path: string): string => `${path.endsWith('.md') ? 'text/markdown' : 'text/plain'}; charset=utf-8`;

async function documentation(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, access };
  });
  const start = asset('start.js');
  const style = asset('style.css');
  const hidden = { schema: { hide: true } };
  app.get('/docs/start.js', hidden, (_request, reply) => reply.type('text/javascript; charset=utf-8').send(start));
  app.get('/docs/style.css', hidden, (_request, reply) => reply.type('text/css; charset=utf-8').send(style));
  for (const [path, text] of Object.entries(readable()))
    app.get(path, hidden, (_request, reply) => reply.type(mediaTypeOf(path)).send(text));
  app.get('/docs', hidden, (_request, reply) => reply.redirect('/docs/', 301));
  app.get('/docs/', hidden, (_request, reply) => sendPage(reply, app.config.PUBLIC_URL));
  let script: Promise<Buffer> | undefined;
  app.get(rendererUrl, hidden, async (_request, reply) => {
    script ??= loadScript();
    script.catch(() => (script = undefined));
    return reply
      .type('text/javascript; charset=utf-8')
      .header('content-encoding', 'gzip')
      .header('cache-control', 'max-age=3600')
      .send(await script);
  });
}

/**
 * Returns the compressed script of the documentation. A separate thread loads it at the first request, because it is
 * text of 20 MB.
 */
const loadScript = (): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const thread = new Worker(new URL('./docs/renderer.ts', import.meta.url));
    thread.once('message', (bytes: Uint8Array) => resolve(Buffer.from(bytes)));
    thread.once('error', reject);
    // Changes nothing after the message.
    thread.once('exit', () => reject(new Error('The script of the documentation could not be loaded')));
  });

const rendererUrl = '/docs/js/scalar.js';

function sendPage(reply: FastifyReply, publicUrl: string | undefined): FastifyReply {
  const nonce = randomBytes(16).toString('base64');
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "font-src 'self' data:",
    `connect-src 'self'${publicUrl === undefined ? '' : ` ${new URL(publicUrl).origin}`}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return reply
    .type('text/html; charset=utf-8')
    .header('content-security-policy', policy.join('; '))
    .header('referrer-policy', 'no-referrer')
    .header('cache-control', 'no-store')
    .send(page(nonce));
}

const page = (nonce: string): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>Sales Data API · Documentation</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta property="csp-nonce" content="${nonce}">
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="/docs/style.css">
  </head>
  <body>
    <div id="documentation"></div>
    <noscript>The documentation needs JavaScript. Its content is also at <a href="/openapi.json">/openapi.json</a>.</noscript>
    <script nonce="${nonce}" src="/docs/start.js"></script>
    <script src="${rendererUrl}" defer></script>
  </body>
</html>
`;
