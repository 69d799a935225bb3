import { readConfig } from '../config.ts';
import { isJsonLog } from '../log-format.ts';
import { commandAction } from './command.ts';

/**
 * The same as `commandAction`, for a command that runs until a signal. It writes JSON also if the log is JSON, so that a
 * collector of stdout and stderr gets JSON lines only.
 */
export const serverAction =
  <Options, Result>(run: (options: Options) => Promise<Result>, print: (result: Result) => string) =>
  (options: Options & { json?: boolean }): Promise<void> =>
    commandAction(run, isJsonLog(readConfig()) ? (result) => JSON.stringify(result) : print)(options);
