import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';

// The files that comments and papers name exist. A name that stays in a text after its module was moved leads readers
// astray.

const root = join(import.meta.dirname, '..');
const exclude = ['**/node_modules', '**/.git', '**/.data', '**/dist', '**/coverage', '**/generated', '**/_generated'];
const files = globSync(['**/*', '.ci/run'], { cwd: root, exclude, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => relative(root, join(entry.parentPath, entry.name)));
const paths = [...new Set(files.flatMap((file) => [file, ...foldersOf(file)]))];

function foldersOf(file: string): string[] {
  const parent = dirname(file);
  return parent === '.' ? [] : [parent, ...foldersOf(parent)];
}

/** Names that are right although the repository has no such file. A trailing `*` stands for anything. */
const elsewhere: readonly string[] = [
  'postgres.json', // the embedded PostgreSQL writes it
  'compose.override.yaml', // an operator writes it
  'clients/dist', // `make clients` writes it
  'clients/dist/*',
  'src/generated', // `npm run client` writes it
  'sql/migrations/0032_fresh_statistics.sql', // of before release 1.0.0
  'sql/migrations/NNNN_product_sku.sql', // examples of new files
  'src/schemas/notes.ts',
  'src/queries/notes.ts',
  'src/routes/notes.ts',
  'test/routes/notes.test.ts',
];

const matcherOf = (name: string): RegExp =>
  new RegExp(`(?:^|/)${name.replaceAll('.', String.raw`\.`).replaceAll(/\*|…/g, '[^/]*')}$`);

const isText = /\.(?:ts|js|css|java|sql|py|ya?ml|sh|service|toml|md)$|(?:^|\/)(?:run|Makefile|Dockerfile)$/;
const isComment = /^\s*(?:\/?\*|\/\/|#|--)|\s(?:\/\/|#|--)\s/;

/** The comments of a file, or all lines of a paper, each with its place. */
function linesOf(file: string): { place: string; text: string }[] {
  const lines = isText.test(file) ? readFileSync(join(root, file), 'utf8').split('\n') : [];
  return lines.flatMap((line, index) => {
    const at = file.endsWith('.md') ? 0 : line.search(isComment);
    return at < 0 ? [] : [{ place: `${file}:${index + 1}`, text: line.slice(at).replaceAll(/\w+:\/\/\S+/g, '') }];
  });
}

const firstFolders = paths.filter((path) => /^(?!\.)[^/]+$/.test(path) && !files.includes(path));
const rooms = paths.filter((path) => /^src\/[^/.]+$/.test(path)).map((path) => path.slice('src/'.length));
const pathName = new RegExp(
  String.raw`(?<![\w./@$*{<~…-])(?:(?:${[...firstFolders, ...rooms].join('|')})/[\w./*…-]*` +
    String.raw`|[\w.*…-][\w./*…-]*\.(?:ts|js|sql|md|py|ya?ml|sh|css|json|service)(?![\w(]))`,
  'g',
);

test('every file and folder that a comment or a paper names exists', () => {
  const exists = (found: string): boolean => {
    const matcher = matcherOf(found.replace(/^(?:\.{1,2}\/)+/, '').replace(/[/.]+$/, ''));
    return paths.some((path) => matcher.test(path)) || elsewhere.some((known) => matcherOf(known).test(found));
  };
  const unknown = files
    .flatMap((file) => linesOf(file))
    .flatMap(({ place, text }) => {
      const names = text.match(pathName) ?? [];
      return names.filter((name) => !exists(name)).map((name) => `${place}: ${name}`);
    });
  expect(unknown).toEqual([]);
});
