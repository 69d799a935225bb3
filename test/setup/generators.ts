import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const answers = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;

const version = '7.17.0';
const folder = ['org', 'openapitools', 'openapi-generator-cli', version, `openapi-generator-cli-${version}.jar`];

/** Path of openapi-generator in Maven's local repository, as `.ci/run` puts it there; undefined if it is missing. */
export const javaGenerator = [join(homedir(), '.m2', 'repository', ...folder)].find(
  (jar) => existsSync(jar) && answers('mvn', '--version'),
);
