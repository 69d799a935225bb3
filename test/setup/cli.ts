import { spawn } from 'node:child_process';
import { join } from 'node:path';

const cli = join(import.meta.dirname, '../../src/cli.ts');

/** The result of a command line run. */
export interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the command line as a shell does, with only these environment variables. */
export function runCli(
  words: string[],
  environment: Record<string, string>,
  input: string | Buffer = '',
  { closeStdout = false } = {},
): Promise<Run> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cli, ...words], { env: environment });
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
