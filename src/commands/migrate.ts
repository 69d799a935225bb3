import type { Command } from 'commander';
import { distribute, migrate, type Migrated } from '../database/migrate.ts';
import { commandAction } from './command.ts';
import { withServer } from './database.ts';

export function define(command: Command): void {
  command
    .option(
      '--distribute',
      'instead, spread the tables of a current database over its Citus cluster; stop the service first',
    )
    .action(commandAction(run, describe));
}

type Result = Migrated | { distributed: string[] };

const run = (options: { distribute?: true }): Promise<Result> =>
  withServer(async ({ ownerUrl }) =>
    options.distribute ? { distributed: await distribute(ownerUrl) } : migrate(ownerUrl),
  );

function describe(result: Result): string {
  if ('distributed' in result)
    return result.distributed.length === 0
      ? 'Nothing to do: the database is distributed'
      : result.distributed.map((name) => `distributed ${name}`).join('\n');
  const { applied, version } = result;
  return applied.length === 0
    ? `Nothing to do: the schema is at ${version}`
    : applied.map((name) => `applied ${name}`).join('\n');
}
