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
    if (!(error instanceof CommanderError)) {
      const { explain } = await import('./commands/explain.ts');
      process.stderr.write(`error: ${explain(error)}\n`);
    }
    return exitCodeOf(error);
  }
}

// A reader that has seen enough (`… | head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

process.exitCode = await main(process.argv.slice(2));
