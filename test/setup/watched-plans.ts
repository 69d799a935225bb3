import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { buildApp } from '../../src/app.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { openDatabase } from '../../src/database/db.ts';
import { parseConfig } from '../../src/process/config.ts';
import { atEnd } from './at-end.ts';
import { asSuperuser } from './database.ts';
import { patient } from './server-process.ts';

/** A node of a query plan, as in `explain (analyze, format json)`. */
export interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  Filter?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Join Filter'?: number;
  Plans?: PlanNode[];
}

/** A statement that the server executed, with its plan. */
export interface WatchedPlan {
  text: string;
  plan: PlanNode;
}

/** Starts another app on a database, and watches its plans. */
export async function appWithPlans(databaseUrl: string) {
  const watch = await watchPlans(databaseUrl);
  const config = parseConfig({ ...patient, LOG_LEVEL: 'silent', DATABASE_URL: watch.url });
  const db = openDatabase(config, watch.url);
  const catalog = openCatalog(config, db);
  const app = buildApp({ config, db, catalog });
  await app.ready();
  atEnd(async () => {
    await app.close();
    await catalog.close();
    await db.close();
    await watch.close();
  });
  return { app, watch, config, db, catalog };
}

/** Access to a database whose server reports the plan of every statement it executes, also those of foreign keys. */
interface PlanWatch {
  /** URL of the database through the watching proxy. */
  url: string;
  /** Returns the statements executed since the last call. */
  take(): WatchedPlan[];
  close(): Promise<void>;
}

/**
 * Starts watching a database. The plans belong to exactly the statements that the service sends, with their parameters
 * and settings: the server's `auto_explain` sends each plan as a notice, and a proxy reads the notices.
 */
async function watchPlans(url: string): Promise<PlanWatch> {
  const { hostname, port, pathname } = new URL(url);
  await explainAutomatically(pathname.slice(1));
  const plans: WatchedPlan[] = [];
  const listener = createServer((client) => {
    const server = connect(Number(port), hostname);
    const read = noticeReader((notice) => plans.push(...planIn(notice)));
    server
      .on('data', read)
      .pipe(client)
      .on('error', () => server.destroy());
    client.pipe(server).on('error', () => client.destroy());
  });
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  const address = listener.address() as AddressInfo;
  return {
    url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(address.port) }).href,
    take: () => plans.splice(0),
    close: () => new Promise((resolve) => listener.close(() => resolve())),
  };
}

const explainAutomatically = (database: string): Promise<void> =>
  asSuperuser(async (sql) => {
    const settings = {
      session_preload_libraries: 'auto_explain',
      'auto_explain.log_min_duration': '0',
      'auto_explain.log_analyze': 'on',
      'auto_explain.log_timing': 'off',
      'auto_explain.log_nested_statements': 'on',
      'auto_explain.log_format': 'json',
      'auto_explain.log_level': 'notice',
    };
    for (const [name, value] of Object.entries(settings))
      await sql.unsafe(`alter database ${database} set ${name} = '${value}'`);
  });

/** Extracts the notices from a server's byte stream. A message has a type, a length and that many bytes. */
function noticeReader(report: (text: string) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 5 && rest.length >= 1 + rest.readInt32BE(1)) {
      const end = 1 + rest.readInt32BE(1);
      if (rest[0] === 'N'.charCodeAt(0)) report(rest.toString('utf8', 5, end));
      rest = rest.subarray(end);
    }
  };
}

function planIn(notice: string): WatchedPlan[] {
  const found = /plan:\n(\{.*\n\})/s.exec(notice);
  if (!found) return [];
  const { 'Query Text': text, Plan: plan } = JSON.parse(found[1]!) as { 'Query Text': string; Plan: PlanNode };
  return [{ text, plan }];
}

const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

/** Summarises a plan: the tables that it scans completely, and the number of rows that it reads. */
export function readingsOf(plan: PlanNode): { sequential: string[]; rows: number } {
  const nodes = nodesOf(plan);
  const scans = nodes.filter((node) => /Scan/.test(node['Node Type']) && node['Relation Name'] !== undefined);
  const kept = nodes.filter((node) => node['Node Type'] === 'Materialize'); // its rows are read repeatedly
  const rows = [...scans, ...kept].map(
    (node) => (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
  );
  return {
    sequential: scans.filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name']!),
    rows: rows.reduce((sum, one) => sum + one, 0),
  };
}

/**
 * Finds one contact or company by its id in another index than the primary key: reads all of the customer's entries. A
 * plan does not show how many.
 */
const searchesForId = ({ 'Index Name': index = '', 'Index Cond': condition = '' }: PlanNode): boolean =>
  /^(contacts|companies)_(?!pkey)/.test(index) && /\(id = (?!ANY)/.test(condition);

/**
 * Describes the nodes of a plan that remove too many rows: more than ten for each row that they return, plus `most`.
 * Such a node compares each row of one table with all rows of another one, or reads many rows to find a few.
 */
export const wastefulNodesOf = (plan: PlanNode, most: number): string[] =>
  nodesOf(plan).flatMap((node) => {
    const { 'Node Type': type, 'Relation Name': table = '', 'Actual Rows': rows, 'Actual Loops': loops } = node;
    if (searchesForId(node)) return [`${type} ${table}: finds an id by ${node['Index Name']}`];
    if (/\bid = ANY \(\(InitPlan/.test(node.Filter ?? '')) return [`${type} ${table}: compares ids with an array`];
    const removed = ((node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0)) * loops;
    return removed > 10 * rows * loops + most ? [`${type} ${table}: ${removed} removed, ${rows * loops} returned`] : [];
  });
