import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const answers = (program: string, ...args: string[]): boolean => spawnSync(program, args).status === 0;

/**
 * Environment for Python programs that use openapi-python-client, with its folder in `PYTHONPATH` if `.ci/run` installed
 * it there; undefined if it is missing.
 */
export const pythonEnvironment = [process.env['PYTHONPATH'] ?? '', '/opt/openapi-python-client']
  .map((PYTHONPATH) => ({ ...process.env, PYTHONPATH }))
  .find((env) => spawnSync('python3', ['-m', 'openapi_python_client', '--version'], { env }).status === 0);

const version = '7.17.0';
const folder = ['org', 'openapitools', 'openapi-generator-cli', version, `openapi-generator-cli-${version}.jar`];

/** Path of openapi-generator in Maven's local repository, as `.ci/run` puts it there; undefined if it is missing. */
export const javaGenerator = [join(homedir(), '.m2', 'repository', ...folder)].find(
  (jar) => existsSync(jar) && answers('mvn', '--version'),
);
