import { CommanderError, InvalidArgumentError, type Command } from 'commander';
import { setFlagsFromString } from 'node:v8';
import { ignoring } from '../process/files.ts';
import { formats, type Format } from '../schemas/formats.ts';
import { lengthOf } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';

export interface CommandModule {
  define(command: Command): void;
}

export class UsageError extends Error {}

export function printed<Result>(
  { json }: { json?: boolean },
  result: Result,
  print: (result: Result) => string,
): Result {
  process.stdout.write(`${json ? JSON.stringify(result) : print(result)}\n`);
  return result;
}

export const commandAction =
  <Options, Result>(run: (options: Options) => Promise<Result>, print: (result: Result) => string) =>
  async (options: Options & { json?: boolean }): Promise<void> => {
    printed(options, await run(options), print);
  };

/** Ignores the error of an output stream whose reader has closed the pipe (EPIPE). Throws every other error. */
export const ignoreQuit = ignoring('EPIPE');

/** Runs `work` with what is open, and closes it afterwards. */
export async function closing<Opened extends { close(): Promise<void> }, T>(
  opened: Opened,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}

const subjects = {
  change: 'the call, job or import',
  customer: 'the customer',
  job: 'the job',
  key: 'the API key',
  user: 'the user',
  webhook: 'the endpoint',
};

/**
 * Adds a subcommand.
 * @param subject adds a required option with this name: the id of the record that the subcommand acts on
 */
export function verb(command: Command, name: string, about: string, subject?: keyof typeof subjects): Command {
  const added = command.command(name).description(about);
  return subject === undefined ? added : added.requiredOption(`--${subject} <id>`, subjects[subject], asUuid);
}

export function addJson(command: Command): void {
  for (const one of command.commands) addJson(one);
  if (command.commands.length === 0) command.option('--json', 'print the result as one JSON value');
}

/** Returns 0 if commander only printed its help or version, 2 for wrong usage, 1 for any other error. */
export function exitCodeOf(error: unknown): 0 | 1 | 2 {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  return error instanceof UsageError ? 2 : 1;
}

const formatted = (format: Format, expected: string) => (value: string) => {
  if (!formats[format](value)) throw new InvalidArgumentError(`It must be ${expected}.`);
  return value;
};

export const asUuid = (value: string): string => canonicalId(formatted('uuid', 'a UUID')(value))!;

export const asUuids = (value: string): string[] => value.split(',').map((id) => asUuid(id.trim()));

/** Reads an id of an option that can be repeated. */
export const asNextUuid = (value: string, before: string[] = []): string[] => [...before, asUuid(value)];

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

export const asSome =
  <Name extends string>(noun: string, allowed: readonly Name[]) =>
  (value: string): Name[] => {
    const names = value.split(',').map((name) => name.trim()) as Name[];
    const unknown = names.filter((name) => !allowed.includes(name));
    if (unknown.length > 0)
      throw new InvalidArgumentError(`No such ${noun}: ${unknown.join(', ')}. Allowed are ${allowed.join(', ')}.`);
    return [...new Set(names)];
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

/** Returns the format that a file's name shows. */
export function formatOf<Format extends string>(file: string, formats: readonly Format[]): Format {
  const format = formats.find((one) => file.toLowerCase().endsWith(`.${one}`));
  if (format) return format;
  const options = formats.map((one) => `--format ${one}`).join(' or ');
  throw new UsageError(`the file name does not show the format: add ${options}`);
}

type Cell = string | number | boolean | null | undefined;

type TableColumn<Row> =
  { [Name in keyof Row]: Row[Name] extends Cell ? Name : never }[keyof Row] | ((row: Row) => Cell);

/**
 * Returns a text table with aligned columns, or `none` if there are no rows.
 * @param columns columns by heading
 */
export function table<Row>(given: Row | readonly Row[], columns: Record<string, TableColumn<Row>>): string {
  const rows = [given].flat() as Row[];
  if (rows.length === 0) return 'none';
  const cellOf = (row: Row, column: TableColumn<Row>) =>
    printable(typeof column === 'function' ? column(row) : (row[column] as Cell));
  const shown = Object.values(columns);
  const lines = [Object.keys(columns), ...rows.map((row) => shown.map((column) => cellOf(row, column)))];
  const widths = shown.map((_, i) => Math.max(...lines.map((line) => lengthOf(line[i]!))));
  const lineOf = (cells: string[]) => cells.map((cell, i) => cell + ' '.repeat(widths[i]! - lengthOf(cell))).join('  ');
  return lines.map((line) => lineOf(line).trimEnd()).join('\n');
}

/**
 * Returns the text of a cell: `-` for null, `yes` or `no` for a boolean. Replaces control characters and changes of
 * text direction by spaces, because they could control the terminal.
 */
const printable = (cell: Cell): string =>
  (typeof cell === 'boolean' ? (cell ? 'yes' : 'no') : String(cell ?? '-')).replaceAll(
    /[\p{Cc}\p{Bidi_Control}]/gu,
    ' ',
  );

/** Stops V8's memory for new objects from growing, or lets it grow again. Never shrinks it. */
export const keepYoungHeapSmall = (isSmall: boolean): void =>
  setFlagsFromString(`--semi-space-growth-factor=${isSmall ? 1 : 2}`);

/**
 * Limits the growth of V8's heap. Call it before the work begins.
 * @param growth maximum growth between two full garbage collections (% of the memory in use)
 */
export function keepHeapSmall(growth: number): void {
  // By default, the heap grows far beyond what a process needs that handles one batch of records after the other.
  keepYoungHeapSmall(true);
  setFlagsFromString(`--heap-growing-percent=${growth}`);
}
