import { randomUUID } from 'node:crypto';
import { link, rm, writeFile } from 'node:fs/promises';

/** Returns a handler of a failed call that ignores errors with these codes, and throws every other error. */
export const ignoring =
  (...codes: string[]) =>
  (error: NodeJS.ErrnoException): undefined => {
    if (!codes.includes(error.code ?? '')) throw error;
  };

/**
 * Creates a file that only this user may read, unless it exists. Other processes never see a part of it: the file gets
 * its name when it is complete.
 */
export async function createOnce(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, text, { mode: 0o600, flush: true });
  await link(draft, path).catch(ignoring('EEXIST'));
  await rm(draft);
}
