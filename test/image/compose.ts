import { execFile, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export const root = join(import.meta.dirname, '..', '..');

// Compose 1.29 gives up after 60 s in which a busy engine does not answer.
process.env['COMPOSE_HTTP_TIMEOUT'] ??= '300';

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

/** Images of services in whose place Debian's package runs where they cannot be had. */
const replaceable = { proxy: ['haproxy', 'haproxy:3.2-alpine'], valkey: ['valkey', 'valkey/valkey:8.1'] } as const;

const replaced = Object.entries(replaceable).filter(([, [, image]]) => !hasImage(image));
const tagOf = (name: string): string => `sales-data-api-stand-in-${name}`;
const build = (tag: string, folder: string) => run('docker', ['build', '--network', 'host', '-t', tag, folder]);

/** The stand-ins of services whose images cannot be had. They were built before the tests. */
export const standIns = (): Record<string, { image: string }> =>
  Object.fromEntries(replaced.map(([service, [name]]) => [service, { image: tagOf(name) }]));

/** Builds the images once, before the test files. */
export default async function setup(): Promise<void> {
  for (const [, [name]] of replaced) await build(tagOf(name), join('test', 'image', 'stand-ins', name));
  await build('sales-data-api', '.');
}
