import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const root = join(import.meta.dirname, '..', '..');

/** Runs a program in the root of the clone and returns its stdout. Rejects with its stderr if it fails. */
export const run = async (file: string, args: string[], environment: NodeJS.ProcessEnv = process.env) =>
  (await promisify(execFile)(file, args, { cwd: root, env: environment, maxBuffer: 2 ** 26 })).stdout.trim();

const succeeds = (file: string, ...args: string[]): boolean => {
  try {
    execFileSync(file, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

/** The command for compose: the plugin of the Docker command line, or the program of older engines. */
export const composeCommand = succeeds('docker', 'compose', 'version') ? ['docker', 'compose'] : ['docker-compose'];

/** Returns whether the engine has an image, or can pull it. */
export const hasImage = (image: string): boolean =>
  succeeds('docker', 'image', 'inspect', image) || succeeds('docker', 'pull', '-q', image);

/** Builds the image of the same name in the folder `stand-ins`, and returns its tag. */
export async function buildStandIn(name: string): Promise<string> {
  const tag = `sales-data-api-stand-in-${name}`;
  await run('docker', ['build', '--network', 'host', '-t', tag, join('test', 'image', 'stand-ins', name)]);
  return tag;
}
