import { Command, type OutputConfiguration } from 'commander';
import packageJson from '../../package.json' with { type: 'json' };
import { addJson, type CommandModule } from './command.ts';

/** Every command; its module is loaded only when the command line names it. */
export const commands: Record<string, { about: string; load: () => Promise<CommandModule> }> = {
  serve: { about: 'serve HTTP', load: () => import('./serve.ts') },
  work: { about: 'do jobs', load: () => import('./work.ts') },
  migrate: { about: 'bring the database to the current schema', load: () => import('./migrate.ts') },
  demo: { about: 'load a demo customer; print a login and a key', load: () => import('./demo.ts') },
  customer: { about: 'create, list, suspend and resume customers', load: () => import('./customer.ts') },
  user: { about: "manage customers' users", load: () => import('./user.ts') },
  key: { about: "manage customers' API keys", load: () => import('./key.ts') },
  pipeline: { about: "manage customers' pipelines", load: () => import('./pipeline.ts') },
  credits: { about: 'show, grant and adjust credits; prove that they add up', load: () => import('./credits.ts') },
  jobs: { about: 'list, cancel and retry the jobs that spend credits', load: () => import('./jobs.ts') },
  catalog: { about: 'load and look after the prospect catalog', load: () => import('./catalog.ts') },
  audit: { about: 'show who did what to keys and users', load: () => import('./audit.ts') },
  openapi: { about: 'print the OpenAPI document', load: () => import('./openapi.ts') },
};

/** The parser of these words of a command line. Instead of ending the process it throws a CommanderError. */
export async function buildProgram(words: string[], output: OutputConfiguration = {}): Promise<Command> {
  const program = new Command('sales-data-api')
    .description('HTTP backend of a sales product. Configured by environment variables; see the README.')
    .version(packageJson.version)
    .showHelpAfterError('(--help shows how it is used)')
    .configureOutput(output)
    .exitOverride();
  for (const [name, { about, load }] of Object.entries(commands)) {
    const command = program.command(name).description(about);
    if (!words.includes(name)) continue;
    (await load()).define(command);
    addJson(command);
  }
  return program;
}
