import { Command, CommanderError, type OutputConfiguration } from 'commander';
import packageJson from '../../package.json' with { type: 'json' };
import { addJson, exitCodeOf, type CommandModule } from './command.ts';
import type { recordCommand } from './records.ts';

const loadRecords =
  (...of: Parameters<typeof recordCommand>) =>
  async () =>
    (await import('./records.ts')).recordCommand(...of);

export const commands: Record<string, { about: string; load: () => Promise<CommandModule> }> = {
  serve: { about: 'serve HTTP', load: () => import('./serve.ts') },
  work: { about: 'run a worker that processes jobs', load: () => import('./work.ts') },
  migrate: { about: 'migrate the database to the current schema', load: () => import('./migrate.ts') },
  demo: { about: 'load a demo customer and print a login and an API key', load: () => import('./demo.ts') },
  customer: { about: 'create, list, suspend and resume customers', load: () => import('./customer.ts') },
  user: { about: "manage customers' users", load: () => import('./user.ts') },
  key: { about: "manage customers' API keys", load: () => import('./key.ts') },
  webhook: {
    about: 'manage the endpoints to which events of a customer are sent',
    load: () => import('./webhook.ts'),
  },
  contacts: { about: "import, export, merge and enrich customers' contacts", load: loadRecords('contacts') },
  companies: { about: "import, export and merge customers' companies", load: loadRecords('companies') },
  products: { about: "import and export customers' products", load: loadRecords('products') },
  opportunities: { about: "import and export customers' opportunities", load: loadRecords('opportunities') },
  pipeline: { about: "manage customers' pipelines", load: () => import('./pipeline.ts') },
  credits: { about: 'show, grant, adjust and check credits', load: () => import('./credits.ts') },
  jobs: { about: 'list, cancel and retry the jobs that spend credits', load: () => import('./jobs.ts') },
  catalog: { about: 'import and maintain the prospect catalog', load: () => import('./catalog.ts') },
  changes: {
    about: "list what has happened with a customer's records, and take it back",
    load: () => import('./changes.ts'),
  },
  events: { about: "follow the changes of a customer's data", load: () => import('./events.ts') },
  privacy: {
    about: 'answer requests of people: find, export, erase and suppress them',
    load: () => import('./privacy.ts'),
  },
  audit: { about: 'show the audit log of keys and users', load: () => import('./audit.ts') },
  config: { about: 'check the environment variables', load: () => import('./config.ts') },
  openapi: { about: 'print the OpenAPI document', load: () => import('./openapi.ts') },
};

/**
 * Creates the parser of the command line. For wrong usage, and after printing help, the parser throws a CommanderError;
 * it does not end the process.
 * @param words the command line without the program name
 */
export async function buildProgram(words: string[], output: OutputConfiguration = {}): Promise<Command> {
  const program = new Command('sales-data-api')
    .description('HTTP backend of a sales product. Configured by environment variables; see docs/configuration.md.')
    .version(packageJson.version)
    .showHelpAfterError('(use --help for usage)')
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

export async function runProgram(words: string[], isPrinted: (error: unknown) => boolean): Promise<0 | 1 | 2> {
  try {
    const program = await buildProgram(words);
    await program.parseAsync(words, { from: 'user' });
    return 0;
  } catch (error) {
    // commander has already printed its own errors.
    if (!(error instanceof CommanderError) && !isPrinted(error)) await report(error);
    return exitCodeOf(error);
  }
}

async function report(error: unknown): Promise<void> {
  const { explain } = await import('./explain.ts');
  process.stderr.write(`error: ${explain(error)}\n`);
}
