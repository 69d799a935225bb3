import { readConfig } from '../../process/config.ts';
import { isJsonLog } from '../../process/log-format.ts';
import { commandAction } from './command.ts';

/**
 * Returns the action of a command that runs until it gets a signal. Like `commandAction`, but also writes JSON without
 * `--json` if the log format is JSON.
 */
export const serverAction =
  <Options, Result>(run: (options: Options) => Promise<Result>, print: (result: Result) => string) =>
  (options: Options & { json?: boolean }): Promise<void> =>
    // A collector of stdout and stderr then gets JSON lines only.
    commandAction(run, isJsonLog(readConfig()) ? (result) => JSON.stringify(result) : print)(options);
