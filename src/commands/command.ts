import { CommanderError, InvalidArgumentError, type Command } from 'commander';
import { formats } from '../schemas/formats.ts';
import { lengthOf } from '../text/code-points.ts';

/** A module of src/commands. `define` adds its verbs and options to the command. */
export interface CommandModule {
  define(command: Command): void;
}

/** The command line is wrong in a way that only the command itself can detect. Exit code 2. */
export class UsageError extends Error {}

/**
 * Returns the action of a verb. It runs the verb and writes the result to stdout: as one JSON value with `--json`,
 * otherwise as the text that `print` returns. Errors are thrown, so they reach stderr only.
 */
export const commandAction =
  <Options, Result>(run: (options: Options) => Promise<Result>, print: (result: Result) => string) =>
  async (options: Options & { json?: boolean }): Promise<void> => {
    const result = await run(options);
    process.stdout.write(`${options.json ? JSON.stringify(result) : print(result)}\n`);
  };

/** Adds the option `--json` to every verb of a command. */
export function addJson(command: Command): void {
  for (const verb of command.commands) addJson(verb);
  if (command.commands.length === 0) command.option('--json', 'print the result as one JSON value');
}

/** Returns the exit code for an error: 0 if help was requested, 2 for wrong usage, 1 for a failure. */
export function exitCodeOf(error: unknown): 0 | 1 | 2 {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  return error instanceof UsageError ? 2 : 1;
}

/** Returns a parser for an option whose value must have one of the formats of schemas/formats.ts. */
const formatted = (format: string, expected: string) => (value: string) => {
  if (!formats[format]!(value)) throw new InvalidArgumentError(`It must be ${expected}.`);
  return value;
};

export const asUuid = formatted('uuid', 'a UUID');

export const asName = (value: string): string => formatted('name', '1 to 255 characters')(value).trim();

export const asKeyName = (value: string): string => formatted('key-name', '1 to 120 characters')(value).trim();

export function asEmail(value: string): string {
  if (value.length > 254) throw new InvalidArgumentError('It must have at most 254 characters.');
  return formatted('email', 'an e-mail address')(value);
}

export const asText =
  (max: number) =>
  (value: string): string => {
    if (lengthOf(value) > max) throw new InvalidArgumentError(`It must have at most ${max} characters.`);
    return value;
  };

export const asCountry = (value: string): string => {
  if (value === '') throw new InvalidArgumentError('It must be an ISO 3166-1 alpha-2 code, such as GB.');
  return formatted('country', 'an ISO 3166-1 alpha-2 code, such as GB')(value).toUpperCase();
};

export const asCurrency = (value: string): string =>
  formatted('currency', 'an ISO 4217 code, such as EUR')(value).toUpperCase();

export const asInteger =
  (least: number, max: number) =>
  (value: string): number => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < least || number > max) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${max}.`);
    }
    return number;
  };
