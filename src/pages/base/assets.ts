import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import staticFiles from '@fastify/static';
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
  await app.register(staticFiles, { root: dirname(files['style.css']), serve: false });
  for (const name of names)
    app.get(`/files/${name}`, forAll, (request, reply) => {
      // While releases are replaced, a page of the other release may ask for its own file.
      const isOwn = (request.query as { v?: unknown }).v === versions[name];
      const caching = isOwn ? { maxAge: '1y', immutable: true } : { maxAge: 0 };
      return reply.sendFile(basename(files[name]), dirname(files[name]), caching);
    });
}
