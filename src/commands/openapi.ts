import type { Command } from 'commander';
import { buildApp } from '../app.ts';
import { openCatalog } from '../catalog/open.ts';
import { readConfig } from '../process/config.ts';
import { openDatabase } from '../database/db.ts';
import { commandAction } from './command.ts';

export function define(command: Command): void {
  command.action(commandAction(describeApi, (document) => JSON.stringify(document, null, 2)));
}

async function describeApi(): Promise<object> {
  const config = { ...readConfig(), LOG_LEVEL: 'silent' as const };
  const db = openDatabase(config, 'postgres://localhost/none');
  const app = buildApp({ config, db, catalog: openCatalog(config, db) });
  await app.ready();
  const document = app.swagger();
  await app.close();
  await db.close();
  return document;
}
