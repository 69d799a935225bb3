interface Word {
  name: string;
  about: string;
}

/** `value` says what follows the option: nothing, any text, a file name, or one of the listed words. */
export interface Flag extends Word {
  value: 'none' | 'any' | 'file' | readonly string[];
}

export interface Place {
  /** E.g. `customer` and `create`. Empty for the program itself. */
  words: readonly string[];
  verbs: readonly Word[];
  flags: readonly Flag[];
  takesFile: boolean;
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const pathOf = ({ words }: Place): string => words.map((word) => ` ${word}`).join('');

/**
 * Returns lines of a shell `case` statement, one for each option that takes a value.
 * @param complete returns the shell code that suggests the values of an option
 */
const valueCases = (places: readonly Place[], complete: (value: Flag['value']) => string): string[] =>
  places.flatMap((place) =>
    place.flags
      .filter(({ value }) => value !== 'none')
      .map(({ name, value }) => `    ${quote(`${pathOf(place)} ${name}`)}) ${complete(value)} ;;`),
  );

const isList = (value: Flag['value']): value is readonly string[] => Array.isArray(value);

const anyPath = (places: readonly Place[]): string =>
  places
    .filter(({ words }) => words.length > 0)
    .map((place) => quote(pathOf(place)))
    .join(' | ');

/** For bash 3.2 or newer. */
export function bashScript(program: string, places: readonly Place[]): string {
  const name = `_${program.replaceAll('-', '_')}`;
  const files = `IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$word")); compopt -o filenames 2>/dev/null; return`;
  const among = (words: readonly string[]) => `COMPREPLY=($(compgen -W ${quote(words.join(' '))} -- "$word"))`;
  return [
    `${name}() {`,
    `  local word=\${COMP_WORDS[COMP_CWORD]} path='' i IFS=$' \\t\\n'`,
    '  COMPREPLY=()',
    '  for ((i = 1; i < COMP_CWORD; i++)); do',
    `    case "$path \${COMP_WORDS[i]}" in ${anyPath(places)}) path="$path \${COMP_WORDS[i]}" ;; esac`,
    '  done',
    '  case "$path ${COMP_WORDS[COMP_CWORD - 1]}" in',
    ...valueCases(places, (value) => (isList(value) ? `${among(value)}; return` : value === 'file' ? files : 'return')),
    '  esac',
    '  case "$path" in',
    ...places.map((place) => {
      const words = [...place.verbs, ...place.flags].map((one) => one.name);
      return `    ${quote(pathOf(place))}) ${place.takesFile ? `[[ $word == -* ]] || { ${files}; }; ` : ''}${among(words)} ;;`;
    }),
    '  esac',
    '}',
    `complete -F ${name} ${program}`,
  ].join('\n');
}

export function zshScript(program: string, places: readonly Place[]): string {
  const name = `_${program.replaceAll('-', '_')}`;
  const described = (words: readonly Word[]) =>
    words.map(({ name: word, about }) => quote(`${word.replaceAll(':', '\\:')}:${about}`)).join(' ');
  return [
    `#compdef ${program}`,
    `${name}() {`,
    `  local path_='' i`,
    '  local -a verbs flags',
    '  for ((i = 2; i < CURRENT; i++)); do',
    `    case "$path_ $words[i]" in (${anyPath(places)}) path_="$path_ $words[i]" ;; esac`,
    '  done',
    '  case "$path_ $words[CURRENT-1]" in',
    ...valueCases(places, (value) =>
      isList(value)
        ? `compadd -- ${value.map(quote).join(' ')}; return`
        : value === 'file'
          ? '_files; return'
          : 'return',
    ).map((line) => line.replace(/^ {4}/, '    (')),
    '  esac',
    '  case "$path_" in',
    ...places.map(
      (place) =>
        `    (${quote(pathOf(place))}) verbs=(${described(place.verbs)}); flags=(${described(place.flags)})${place.takesFile ? '; _files' : ''} ;;`,
    ),
    '  esac',
    `  _describe -t verbs command verbs`,
    `  _describe -o -t flags option flags`,
    '}',
    `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }`,
    `compdef ${name} ${program}`,
  ].join('\n');
}

export function fishScript(program: string, places: readonly Place[]): string {
  const name = `__${program.replaceAll('-', '_')}_at`;
  const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const at = (place: Place) => `complete -c ${program} -n ${quoted(`${name} ${quoted(pathOf(place))}`)}`;
  const valueOf = ({ value }: Flag): string => {
    if (value === 'none') return '';
    return value === 'file' ? ' -rF' : ` -x${isList(value) ? ` -a ${quoted(value.join(' '))}` : ''}`;
  };
  const paths = places.filter(({ words }) => words.length > 0).map((place) => quoted(pathOf(place)));
  return [
    `function ${name}`,
    '  set -l path ""',
    '  for word in (commandline -opc)[2..]',
    `    contains -- "$path $word" ${paths.join(' ')}; and set path "$path $word"`,
    '  end',
    '  test "$path" = "$argv[1]"',
    'end',
    `complete -c ${program} -f`,
    ...places.flatMap((place) => [
      ...place.verbs.map((verb) => `${at(place)} -a ${quoted(verb.name)} -d ${quoted(verb.about)}`),
      ...place.flags.map((flag) => `${at(place)} -l ${flag.name.slice(2)} -d ${quoted(flag.about)}${valueOf(flag)}`),
      ...(place.takesFile ? [`${at(place)} -F`] : []),
    ]),
  ].join('\n');
}
