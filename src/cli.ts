#!/usr/bin/env node
import { CommanderError } from 'commander';
import { exitCodeOf } from './commands/shell/command.ts';
import { keepHeapSmall } from './commands/shell/heap.ts';
import { buildProgram } from './commands/shell/program.ts';

/**
 * Runs a command of the command line interface and returns the exit code: 0 for success, 1 for a failure, 2 for wrong
 * usage.
 */
async function main(words: string[]): Promise<0 | 1 | 2> {
  try {
    const program = await buildProgram(words);
    await program.parseAsync(words, { from: 'user' });
    return 0;
  } catch (error) {
    // commander has already printed its own errors.
    if (!(error instanceof CommanderError) && error !== lostOutput) await report(error);
    return exitCodeOf(error);
  }
}

async function report(error: unknown): Promise<void> {
  const { explain } = await import('./commands/shell/explain.ts');
  process.stderr.write(`error: ${explain(error)}\n`);
}

/**
 * The first error that occurred while writing to stdout or stderr, or undefined. Errors with the code EPIPE are not
 * stored, because they only mean that the reader has closed the pipe (`… | head`).
 */
let lostOutput: Error | undefined;

for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE' || lostOutput) return;
    lostOutput = error;
    if (stream === process.stdout) process.stderr.write(`error: The output cannot be written: ${error.message}\n`);
  });
process.once('exit', () => {
  if (lostOutput) process.exitCode = 1;
});

const words = process.argv.slice(2);
// Before its modules are loaded: the young generation of the heap grows by what they leave, and stays so large.
if (words[0] === 'work') keepHeapSmall(50);
process.exitCode = await main(words);
