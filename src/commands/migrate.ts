import type { Command } from 'commander';
import { migrate, type Migrated } from '../database/migrate.ts';
import { commandAction } from './command.ts';
import { withServer } from './database.ts';

/** Defines the action of the command `migrate` on the command line. */
export function define(command: Command): void {
  command.action(commandAction(run, describe));
}

const run = (): Promise<Migrated> => withServer(({ ownerUrl }) => migrate(ownerUrl));

const describe = ({ applied, version }: Migrated): string =>
  applied.length === 0
    ? `Nothing to do: the schema is at ${version}`
    : applied.map((name) => `applied ${name}`).join('\n');
