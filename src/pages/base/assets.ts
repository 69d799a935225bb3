import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { forAll } from './access.ts';

/** Path on disk by file name in the URL. */
const files = {
  'pico.css': createRequire(import.meta.url).resolve('@picocss/pico/css/pico.min.css'),
  'style.css': fileURLToPath(new URL('../files/style.css', import.meta.url)),
  'pages.js': fileURLToPath(new URL('../files/pages.js', import.meta.url)),
};

type Asset = keyof typeof files;

const names = Object.keys(files) as Asset[];

const versions = Object.fromEntries(names.map((name) => [name, versionOf(files[name])])) as Record<Asset, string>;

/** Returns the first characters of the file's SHA-256 hash. */
function versionOf(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 12);
}

/** The URL changes when the file changes, so browsers can cache the file forever. */
export const assetUrl = (name: Asset): string => `/app/files/${name}?v=${versions[name]}`;

export async function assets(app: FastifyInstance): Promise<void> {
  for (const name of names) {
    const content = readFileSync(files[name]);
    const packed = gzipSync(content, { level: 9 });
    app.get(`/files/${name}`, forAll, async (request, reply) => {
      // While releases are replaced, a page of the other release may ask for its own file.
      const isOwn = (request.query as { v?: unknown }).v === versions[name];
      const isPacked = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
      if (isPacked) void reply.header('content-encoding', 'gzip');
      return reply
        .type(name.endsWith('.css') ? 'text/css; charset=utf-8' : 'text/javascript; charset=utf-8')
        .header('vary', 'accept-encoding')
        .header('cache-control', isOwn ? 'public, max-age=31536000, immutable' : 'public, max-age=0')
        .send(isPacked ? packed : content);
    });
  }
}
