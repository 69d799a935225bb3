import type { Command } from 'commander';
import { buildApp } from '../app.ts';
import { openCatalog } from '../catalog/open.ts';
import { readConfig } from '../config.ts';
import { openDatabase } from '../db.ts';
import { answer } from './command.ts';

/** `openapi` */
export function define(command: Command): void {
  command.action(answer(describeApi, (document) => JSON.stringify(document, null, 2)));
}

/** The OpenAPI document, from the routes alone: a database is opened lazily and so never asked. */
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
