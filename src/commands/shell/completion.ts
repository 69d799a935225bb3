import { Argument, type Command, type Option } from 'commander';
import { commandAction } from './command.ts';
import { bashScript, fishScript, zshScript, type Flag, type Place } from './completion-scripts.ts';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

export function define(command: Command): void {
  const shell = new Argument('<shell>', 'the shell').choices(Object.keys(scripts));
  command
    .addArgument(shell)
    .addHelpText('after', '\nSave the script to a file and read that file when the shell starts, in bash for example:')
    .addHelpText('after', '  sales-data-api completion bash > ~/.sales-data-api.bash')
    .addHelpText('after', "  echo 'source ~/.sales-data-api.bash' >> ~/.bashrc")
    .action((name: keyof typeof scripts, options: object) =>
      commandAction(
        async () => scripts[name](command.parent!.name(), placesOf(command.parent!)),
        (script) => script,
      )(options),
    );
}

/**
 * Returns what can follow a command and each of its subcommands.
 * @param words the command's path, e.g. `customer` and `create`; empty for the program itself
 */
function placesOf(command: Command, words: string[] = []): Place[] {
  const below = command.commands.flatMap((verb) => placesOf(verb, [...words, verb.name()]));
  const verbs = command.commands.map((verb) => ({ name: verb.name(), about: verb.description() }));
  const [argument] = command.registeredArguments;
  const place: Place = {
    words,
    verbs: [...verbs, ...(argument?.argChoices ?? []).map((name) => ({ name, about: argument!.description }))],
    flags: [...command.options.map(flagOf), { name: '--help', about: 'show help', value: 'none' }],
    takesFile: argument?.name() === 'file',
  };
  return [place, ...below];
}

function flagOf({ long, flags, description, required, argChoices }: Option): Flag {
  const takesFile = /<file>/.test(flags);
  const value = argChoices ?? (takesFile ? 'file' : required ? 'any' : 'none');
  return { name: long!, about: description, value };
}
