import type { Command } from 'commander';
import { describeConfig, type ConfigReport } from '../process/config.ts';
import { commandAction, table, verb } from './command.ts';

export function define(command: Command): void {
  verb(
    command,
    'check',
    'show which variables are set and from where, which do not exist, and which have no effect',
  ).action(commandAction(async () => describeConfig(), print));
}

const print = ({ settings, unknown, without_effect }: ConfigReport): string =>
  [
    table(settings, { variable: 'name', value: 'value', from: 'from' }),
    ...unknown.map((name) => `${name} is set, but there is no such variable. See docs/configuration.md.`),
    ...without_effect.map(({ name, because }) => `${name} has no effect: ${because}.`),
  ].join('\n');
