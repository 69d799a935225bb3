import type { Command } from 'commander';
import { publicUrl, readConfig } from '../process/config.ts';
import type { Demo } from './load-demo.ts';
import { commandAction } from './command.ts';
import { withServices } from './database.ts';

export function define(command: Command): void {
  command
    .option('--force', 'load it beside other customers too; the catalog is then left as it is')
    .action(commandAction(load, (demo) => describeDemo(demo, publicUrl(readConfig()))));
}

async function load({ force }: { force?: true }): Promise<Demo> {
  const { loadDemo } = await import('./load-demo.ts');
  return withServices((services) => loadDemo(services, force));
}

export const describeDemo = (demo: Demo, url: string): string =>
  demo.key === null
    ? `Demo customer ${demo.customerId} already exists. Nothing was changed.`
    : [
        `Demo customer ${demo.customerId}${demo.created ? '' : ' (already existed)'}`,
        `  pages     ${url}/app`,
        `  login     ${demo.email}   password ${demo.password}`,
        `  API key   ${demo.key}`,
        `  catalog   ${demo.prospects === null ? 'unavailable; run this command again when it is available' : `${demo.prospects.toLocaleString('en')} prospects`}`,
        '',
        'Try it:',
        '',
        `  curl -s ${url}/api/ext/contacts/list \\`,
        `    -H 'Authorization: X-API-Key ${demo.key}' \\`,
        `    -H 'Content-Type: application/json' \\`,
        `    -d '{"paginate": {"page": 1, "limit": 2}}'`,
      ].join('\n');
