import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What has to be closed after the tests of the file that runs now. */
const closing: (() => unknown)[] = [];

/**
 * Closes something after the tests of the running file. Setup modules call it instead of `afterAll`: they are loaded once
 * for all files of a process, and a hook at their top level would belong to the first file only.
 */
export function atEnd(close: () => unknown): void {
  closing.push(close);
}

/**
 * Closes everything, what was opened last first.
 * @throws the first error, after everything was tried
 */
export async function closeAll(): Promise<void> {
  const errors: unknown[] = [];
  for (let close = closing.pop(); close; close = closing.pop()) {
    try {
      await close();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
}

/** Creates a folder for the running file, which is removed after its tests. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'test-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
