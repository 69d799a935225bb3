import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { runCommand } from '../../setup/cli.ts';

const folder = mkdtempSync(join(tmpdir(), 'completion-'));
writeFileSync(join(folder, 'some people.csv'), '');
afterAll(() => rmSync(folder, { recursive: true }));

const hasShell = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0;

const scriptOf = async (shell: string): Promise<string> => {
  const { code, stdout, stderr } = await runCommand(['completion', shell], {});
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
};

/** Command lines, and what the shells offer for the last word. */
const lines: [line: string, offered: string[]][] = [
  ['sales-data-api cred', ['credits']],
  ['sales-data-api comp', ['companies', 'completion']],
  ['sales-data-api comple', ['completion']],
  ['sales-data-api completion ', ['bash', 'zsh', 'fish']],
  ['sales-data-api key ', ['create', 'list', 'revoke']],
  ['sales-data-api key create --exp', ['--expiration']],
  ['sales-data-api key create --expiration ', ['7', '30', '90', '365']],
  ['sales-data-api key create --name key --customer x --expiration 3', ['30', '365']],
  ['sales-data-api key create --name ', []],
  ['sales-data-api user create --role a', ['admin']],
  ['sales-data-api serve --wi', ['--with-worker']],
  ['sales-data-api catalog import --format ', ['ndjson', 'csv']],
  ['sales-data-api catalog import some', ['some people.csv']],
  ['sales-data-api catalog generate --output some', ['some people.csv']],
];

describe.runIf(hasShell('bash'))('in bash (needs bash: apt-get install bash)', () => {
  test('it completes commands, verbs, options, values and files', async () => {
    const script = await scriptOf('bash');
    const offeredFor = (line: string) => {
      const program = `${script}
        COMP_WORDS=(${line}${line.endsWith(' ') ? " ''" : ''}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
        _sales_data_api; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return execFileSync('bash', ['--norc', '-uc', program], { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
        .split('\n')
        .filter((word) => word !== '' && !/^(--help|--json)$/.test(word));
    };
    for (const [line, offered] of lines) expect(offeredFor(line), line).toEqual(offered);
    expect(script).toMatch(/\ncomplete -F _sales_data_api sales-data-api\n$/);
  });
});

describe.runIf(hasShell('fish'))('in fish (needs fish: apt-get install fish)', () => {
  test('it completes commands, verbs, options, values and files', async () => {
    const script = await scriptOf('fish');
    for (const [line, offered] of lines) {
      const shown = execFileSync('fish', ['--no-config', '-c', `${script}\ncomplete -C "${line}"`], {
        cwd: folder,
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], HOME: folder },
      });
      const words = shown.split('\n').flatMap((word) => (word === '' ? [] : [word.split('\t')[0]!]));
      expect(words.filter((word) => !line.endsWith(' ') || !word.startsWith('-')).sort(), line).toEqual(
        offered.toSorted(),
      );
    }
  });
});

/** Runs zsh on a terminal of its own, and shows each line of the arguments after a press of Tab. */
const zshDriver = `
  zmodload zsh/zpty
  zpty shell zsh -f -i
  zpty -w shell 'source ./init.zsh'
  zpty -r shell shown '*READY*'
  for line in "$@"; do
    zpty -w -n shell "$line"$'\\x14'
    zpty -r shell shown '*DONE:*:*'
    print -r -- "\${\${shown##*DONE:}%%:*}"
  done`;

/** What the zsh on the terminal runs first. Control-T completes as Tab does and prints the line. */
const zshInit = `
  PS1=''
  source ./completion.zsh
  show() { zle complete-word; print -r -- "DONE:$BUFFER:"; BUFFER='' }
  zle -N show
  bindkey '^T' show
  print READY`;

describe.runIf(hasShell('zsh'))('in zsh (needs zsh: apt-get install zsh)', () => {
  test('it completes commands, verbs, options, values and files', async () => {
    writeFileSync(join(folder, 'completion.zsh'), await scriptOf('zsh'));
    writeFileSync(join(folder, 'init.zsh'), zshInit);
    const unambiguous = lines.filter(([line, offered]) => offered.length === 1 && !line.endsWith(' '));
    const shown = execFileSync('zsh', ['-f', '-c', zshDriver, 'zsh', ...unambiguous.map(([line]) => line)], {
      cwd: folder,
      encoding: 'utf8',
      timeout: 60_000,
      env: { PATH: process.env['PATH'], HOME: folder, TERM: 'dumb' },
    });
    const completed = unambiguous.map(([line, [word]]) => `${line.replace(/\S+$/, word!.replaceAll(' ', '\\ '))} `);
    expect(
      shown
        .trimEnd()
        .split('\n')
        .map((line) => `${line.trim()} `),
    ).toEqual(completed);
  });
});

test('with --json it prints the script as one JSON value, and an unknown shell exits 2', async () => {
  const { stdout } = await runCommand(['completion', 'bash', '--json'], {});
  expect(`${JSON.parse(stdout)}\n`).toBe(await scriptOf('bash'));
  expect(await runCommand(['completion', 'csh'], {})).toMatchObject({ code: 2, stdout: '' });
});
