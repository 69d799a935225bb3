import { CommanderError, type Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { exitCodeOf } from '../../../src/commands/command.ts';
import { buildProgram, commands } from '../../../src/commands/program.ts';
import { runCli } from '../../setup/cli.ts';

const id = '01990000-0000-7000-8000-000000000000';

/** Parses a command line that must fail before it has any effect. */
async function parse(words: string[]) {
  const printed = { out: '', err: '' };
  const program = await buildProgram(words, {
    writeOut: (text) => (printed.out += text),
    writeErr: (text) => (printed.err += text),
  });
  const error = await program.parseAsync(words, { from: 'user' }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(CommanderError);
  return { code: exitCodeOf(error), ...printed };
}

const user = { '--customer': id, '--email': 'ada@example.com', '--name': 'Ada', '--role': 'admin' };

const userLine = (changed: object) => ['user', 'create', ...Object.entries({ ...user, ...changed }).flat()];

test.each<[string, string[]]>([
  ['no command', []],
  ['an unknown command', ['frobnicate']],
  ['a noun without a verb', ['customer']],
  ['an unknown verb', ['customer', 'delete']],
  ['an unknown option', ['customer', 'list', '--all']],
  ['an unexpected argument', ['customer', 'list', 'x']],
  ['a missing option', ['customer', 'create']],
  ['a blank name', ['customer', 'create', '--name', ' ']],
  ['an unknown country', ['customer', 'create', '--name', 'x', '--country', 'XX']],
  ['an id that is not a UUID', ['customer', 'suspend', '--customer', '1']],
  ['an unknown role', [...userLine({ '--role': 'owner' }), '--password-stdin']],
  ['an invalid e-mail address', [...userLine({ '--email': 'ada' }), '--password-stdin']],
  ['a password on the command line', [...userLine({}), '--password', 'correct horse battery']],
  ['no password option', userLine({})],
  ['a limit of 0', ['audit', 'list', '--customer', id, '--limit', '0']],
  ['a limit that is not a whole number', ['audit', 'list', '--customer', id, '--limit', '1e2']],
  ['an unknown pool', ['credits', 'grant', '--customer', id, '--pool', 'petty', '--amount', '1']],
  ['a grant of 0 credits', ['credits', 'grant', '--customer', id, '--pool', 'subscription', '--amount', '0']],
  ['a grant of 1.5 credits', ['credits', 'grant', '--customer', id, '--pool', 'subscription', '--amount', '1.5']],
  ['an adjustment by 0', ['credits', 'adjust', '--customer', id, '--pool', 'subscription', '--amount', '-0']],
  ['an unknown status', ['jobs', 'list', '--status', 'LOST']],
  ['an unknown currency', ['pipeline', 'create', '--customer', id, '--name', 'x', '--currency', 'ABC']],
  ...['Won', 'Won:101', 'Won:-1', 'Won:1:DONE', ':10', ' :10'].map((stage): [string, string[]] => [
    `the stage ${JSON.stringify(stage)}`,
    ['pipeline', 'create', '--customer', id, '--name', 'x', '--stage', stage],
  ]),
])('a wrong command line exits 2 with a message on stderr and nothing on stdout: %s', async (_, words) => {
  const { code, out, err } = await parse(words);
  expect([code, out]).toEqual([2, '']);
  expect(err).not.toBe('');
});

describe('every verb', async () => {
  const program = await buildProgram(Object.keys(commands));
  const leaves = (command: Command, path: string[]): string[][] =>
    command.commands.length === 0 ? [path] : command.commands.flatMap((verb) => leaves(verb, [...path, verb.name()]));

  test.each(leaves(program, []).map((path) => [path.join(' '), path] as const))(
    '%s has a help text',
    async (name, path) => {
      const { code, out, err } = await parse([...path, '--help']);
      expect([code, err]).toEqual([0, '']);
      expect(out).toMatch(new RegExp(`^Usage: sales-data-api ${name} \\[options\\]( <\\w+>| \\[\\w+\\])*\n\n`));
      expect(out).toMatch(/ --json +print the result as one JSON value/);
    },
  );
});

test('as a process wrong usage prints to stderr, exits 2 and opens no database', async () => {
  const { code, stdout, stderr } = await runCli(['customer', 'suspend', '--customer', '1'], {
    DATABASE_URL: 'nonsense',
  });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toBe(
    "error: option '--customer <id>' argument '1' is invalid. It must be a UUID.\n(use --help for usage)\n",
  );
});
