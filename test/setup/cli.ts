import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { runProgram } from '../../src/commands/program.ts';

type Json = any; // eslint-disable-line typescript/no-explicit-any -- tests read any field of results

const cli = join(import.meta.dirname, '../../src/cli.ts');

/** The result of a command line run. */
export interface Run {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Variables for each process of the service: what Node has compiled is kept, which halves the time of a start. */
export const nodeEnvironment = { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] };

/** Runs the command line in a process of its own, as a shell does, with only these environment variables (and `nodeEnvironment`). */
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

/** Ends when the last command that `runCommand` was asked for has ended. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs the command line in the process of the tests, which takes a tenth of the time of `runCli`. Commands run one after
 * the other, because each has the streams and the environment of the process. The log is not part of `stderr`.
 */
export function runCommand(
  words: string[],
  environment: Record<string, string>,
  input: string | Buffer = '',
): Promise<Run> {
  const run = last.then(() => runHere(words, environment, input));
  last = run.catch(() => {});
  return run;
}

/**
 * Splits a command line into its words, as a shell does. What is put in is one word, whatever it contains, or a list of words.
 */
export const words = (texts: TemplateStringsArray, ...given: (string | readonly string[])[]): string[] =>
  texts.raw.flatMap((text, i) => {
    const around = text.split(/\s+/).filter((word) => word !== '');
    return i < given.length ? [...around, ...[given[i]!].flat()] : around;
  });

/** An id that no record has. */
export const unknownId = '01990000-0000-7000-8000-000000000000';

/** Returns functions that run command lines with this environment, as an operator of the service does. */
export function operatorWith(environment: Record<string, string>) {
  const run = (line: string[], input?: string | Buffer): Promise<Run> => runCommand(line, environment, input);
  /** Runs a command line with `--json`. Returns its result; throws if it failed or wrote to stderr. */
  const json = async (line: string[], input?: string | Buffer): Promise<Json> => {
    const { code, stdout, stderr } = await run([...line, '--json'], input);
    if (code !== 0 || stderr !== '') throw new Error(`${line.join(' ')}: exit ${code}, ${stderr}`);
    return JSON.parse(stdout);
  };
  return { run, json };
}

async function runHere(words: string[], environment: Record<string, string>, input: string | Buffer): Promise<Run> {
  const [stdin, stdout, stderr] = [Readable.from([Buffer.from(input)]), new PassThrough(), new PassThrough()];
  const texts = Promise.all([stdout, stderr].map(async (stream) => (await buffer(stream)).toString()));
  const before = process.env;
  const streams = Object.entries({ stdin, stdout, stderr }).map(([name, value]) => {
    const own = Object.getOwnPropertyDescriptor(process, name)!;
    Object.defineProperty(process, name, { ...own, get: () => value });
    return { name, own };
  });
  process.env = { ...environment };
  try {
    const code = await runProgram(words, () => false);
    for (const stream of [stdout, stderr]) stream.end();
    const [out, error] = await texts;
    return { code, stdout: out!, stderr: error! };
  } finally {
    process.env = before;
    for (const { name, own } of streams) Object.defineProperty(process, name, own);
    stdin.destroy();
  }
}
