import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import packageJson from '../../package.json' with { type: 'json' };
import { atEnd } from '../setup/at-end.ts';

const root = join(import.meta.dirname, '..', '..');

/** A release of the program, in a folder of its own. */
export interface Release {
  version: string;
  /** Path of its command line. */
  cli: string;
  /** Runs its `migrate`. */
  migrate(ownerUrl: string): Promise<{ applied: string[]; version: string }>;
}

/** What a release changes: texts in source files that are replaced, and the text of a new migration by file name. */
export interface Changes {
  sources: { [file: string]: [before: string, after: string][] };
  migrations: { [name: string]: string };
}

/** This program. */
export const thisRelease: Release = releaseIn(root, packageJson.version);

/** Returns the version of the release that follows `steps` minor releases after this one. */
export function versionAfter(steps: number): string {
  const [major, minor] = packageJson.version.split('.').map(Number) as [number, number];
  return `${major}.${minor + steps}.0`;
}

/** Creates a later release: a copy of this program with all changes up to that release. */
export async function makeRelease(version: string, ...changes: Changes[]): Promise<Release> {
  const folder = await mkdtemp(join(tmpdir(), 'release-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  await cp(join(root, 'src'), join(folder, 'src'), { recursive: true });
  await cp(join(root, 'docs', 'api.md'), join(folder, 'docs', 'api.md'));
  await cp(join(root, 'docs', 'agents.md'), join(folder, 'docs', 'agents.md'));
  await mkdir(join(folder, 'sql'));
  await cp(join(root, 'sql', 'migrations'), join(folder, 'sql', 'migrations'), { recursive: true });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ ...packageJson, version }));
  for (const { sources, migrations } of changes) {
    for (const [file, replacements] of Object.entries(sources)) await edit(join(folder, file), replacements);
    for (const [name, text] of Object.entries(migrations))
      await writeFile(join(folder, 'sql', 'migrations', name), text);
  }
  return releaseIn(folder, version);
}

async function edit(path: string, replacements: [string, string][]): Promise<void> {
  let text = await readFile(path, 'utf8');
  for (const [before, after] of replacements) {
    if (text.split(before).length !== 2) throw new Error(`${path} must contain "${before}" once; adapt this test`);
    text = text.replace(before, () => after);
  }
  await writeFile(path, text);
}

function releaseIn(folder: string, version: string): Release {
  const cli = join(folder, 'src', 'cli.ts');
  const migrate = async (ownerUrl: string) => {
    const { stdout } = await promisify(execFile)(process.execPath, [cli, 'migrate', '--json'], {
      env: { DATABASE_URL: ownerUrl },
    });
    return JSON.parse(stdout) as { applied: string[]; version: string };
  };
  return { version, cli, migrate };
}
