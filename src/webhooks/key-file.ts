import { randomBytes } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const fileName = 'webhook-secret-key';

/**
 * Returns the key that encrypts the secrets of webhooks, from a file in the data folder of the embedded PostgreSQL.
 * Creates the file if it is missing. Several processes may call this at once: all get the same key.
 */
export async function keyFromFile(dataDir: string): Promise<string> {
  const path = join(dataDir, fileName);
  return (await readKey(path)) ?? createKey(path);
}

async function createKey(path: string): Promise<string> {
  // A file appears under its final name only when it is complete, and only if there is none.
  const draft = `${path}.${randomBytes(6).toString('hex')}`;
  await writeFile(draft, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flush: true });
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(draft);
  return (await readKey(path))!;
}

async function readKey(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
