import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { loadDemo, type Demo } from '../demo/load.ts';
import { answer } from './command.ts';
import { openServices } from './database.ts';

/** `demo` */
export function define(command: Command): void {
  command.action(answer(load, (demo) => describeDemo(demo, addressOf(readConfig()))));
}

async function load(): Promise<Demo> {
  const services = await openServices();
  try {
    return await loadDemo(services);
  } finally {
    await services.close();
  }
}

const addressOf = ({ HOST, PORT, PUBLIC_URL }: { HOST: string; PORT: number; PUBLIC_URL?: string }): string =>
  PUBLIC_URL ?? `http://${HOST}:${PORT}`;

/** The demo for a person: how to log in, the key, and a call that works as it stands. */
export const describeDemo = (demo: Demo, url: string): string =>
  [
    `Demo customer ${demo.customerId}${demo.created ? '' : ' (kept from before)'}`,
    `  login     ${demo.email}   password ${demo.password}`,
    `  API key   ${demo.key}`,
    `  catalog   ${demo.prospects === null ? 'does not answer; run this again when it does' : `${demo.prospects.toLocaleString('en')} prospects`}`,
    '',
    'Try it:',
    '',
    `  curl -s ${url}/api/ext/contacts/list \\`,
    `    -H 'Authorization: X-API-Key ${demo.key}' \\`,
    `    -H 'Content-Type: application/json' \\`,
    `    -d '{"paginate": {"page": 1, "limit": 2}}'`,
  ].join('\n');
