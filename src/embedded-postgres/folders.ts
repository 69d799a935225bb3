import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates a folder and its missing parents. Node's `mkdir` with `recursive: true` never ends if a folder exists in
 * which none can be created, such as `/proc`.
 * @param path absolute path
 * @param mode permissions of the created folders
 */
export async function createFolder(path: string, mode?: number): Promise<void> {
  if (await isFolder(path)) return;
  if (path !== dirname(path)) await createFolder(dirname(path), mode);
  await mkdir(path, { mode }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST' || !(await isFolder(path))) throw error;
  });
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
