#!/usr/bin/env node
import { keepHeapSmall, keepYoungHeapSmall } from './commands/command.ts';
import { runProgram } from './commands/program.ts';

/**
 * First error of writing to stdout or stderr, or undefined. EPIPE is not stored: it only means that the reader has
 * closed the pipe (`… | head`).
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
if (words[0] === 'serve') keepYoungHeapSmall(true);
process.exitCode = await runProgram(words, (error) => error === lostOutput);
