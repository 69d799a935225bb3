import { spawn } from 'node:child_process';
import { join } from 'node:path';

const cli = join(import.meta.dirname, '../../src/cli.ts');

/** The result of a command line run. */
export interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Variables for each process of the service: what Node has compiled is kept, which halves the time of a start. */
export const nodeEnvironment = { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] };

/** Runs the command line as a shell does, with only these environment variables (and `nodeEnvironment`). */
export function runCli(
  words: string[],
  environment: Record<string, string>,
  input: string | Buffer = '',
  { closeStdout = false } = {},
): Promise<Run> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cli, ...words], { env: { ...nodeEnvironment, ...environment } });
    const run: Run = { code: null, stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (text: string) => (run.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (run.stderr += text));
    if (closeStdout) child.stdout.destroy();
    child.on('error', reject);
    child.on('close', (code) => resolve({ ...run, code }));
    child.stdin.on('error', () => {}); // a command that reads no input may exit before the input is written
    child.stdin.end(input);
  });
}
