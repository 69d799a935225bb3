#!/usr/bin/env node
import { CommanderError } from 'commander';
import { exitCodeOf } from './commands/command.ts';
import { buildProgram } from './commands/program.ts';

/** Runs the command line, and answers its exit code: 0 done, 1 failed, 2 used wrongly. */
async function main(words: string[]): Promise<0 | 1 | 2> {
  try {
    const program = await buildProgram(words);
    await program.parseAsync(words, { from: 'user' });
    return 0;
  } catch (error) {
    // What commander throws, it has already printed.
    if (!(error instanceof CommanderError) && error !== lostOutput) await report(error);
    return exitCodeOf(error);
  }
}

async function report(error: unknown): Promise<void> {
  const { explain } = await import('./commands/explain.ts');
  process.stderr.write(`error: ${explain(error)}\n`);
}

/** What kept output from being written. A reader that has seen enough (`… | head`) is no failure. */
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

process.exitCode = await main(process.argv.slice(2));
