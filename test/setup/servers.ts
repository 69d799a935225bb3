import { randomBytes } from 'node:crypto';
import postgres from 'postgres';
import { GenericContainer, getContainerRuntimeClient, Wait } from 'testcontainers';
import type { TestProject } from 'vitest/node';
import { distribute, migrate } from '../../src/database/migrate.ts';
import { logins, prepareDatabase, type Passwords } from '../../src/database/embedded-postgres.ts';
import { openThrowawayPostgres } from './throwaway-postgres.ts';
import { blankDatabase, citusProgram, cloneDatabase, closeForClones, hasCitusProgram, startCitus } from './citus.ts';

/** Values that every test file can `inject`. */
declare module 'vitest' {
  export interface ProvidedContext {
    postgres: TestServer;
  }
}

/** The PostgreSQL server of the tests, or the Citus cluster. */
interface TestServer {
  /** URLs of the logins on the server, or on the coordinator of the cluster, without the database name. */
  urls: Record<keyof Passwords, string>;
  /** URLs of the superuser on each node of the cluster, or on the server alone, without the database name. */
  nodes: string[];
  /** Names of the databases that are cloned for test files: migrated ones and empty ones. */
  templates: Record<'migrated' | 'nothing', string>;
  isCitus: boolean;
}

interface Server {
  /** URL of the superuser in the maintenance database. */
  superuserUrl: string;
  passwords: Passwords;
  stop: () => Promise<unknown>;
}

/** Name of the template database: migrated once, cloned for each test file. */
const template = 'template_sales_data_api';

/**
 * Starts the servers that all test files share, before the first test file. Returns a function that stops them after
 * the last.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (isCitusWanted(process.env['TEST_DATABASE'])) return setUpCitus(project);
  const server = await startServer(process.env['TEST_SERVERS']);
  try {
    await makeTemplate(server);
  } catch (error) {
    await server.stop();
    throw error;
  }
  const urls = loginUrls(server);
  const templates = { migrated: template, nothing: 'template0' };
  project.provide('postgres', { urls, nodes: [urls.superuser], templates, isCitus: false });
  return async () => void (await server.stop());
}

function isCitusWanted(wish = ''): boolean {
  if (!['', 'citus'].includes(wish)) throw withoutStack(`TEST_DATABASE must be citus, not ${wish}`);
  if (wish === 'citus' && !hasCitusProgram) throw withoutStack(`TEST_DATABASE=citus needs ${citusProgram}`);
  return wish === 'citus';
}

/** Starts a Citus cluster, and distributes the template database over it. */
async function setUpCitus(project: TestProject): Promise<() => Promise<void>> {
  process.stdout.write('test servers: Citus (TEST_DATABASE)\n');
  const { nodes, stop } = await startCitus();
  const url = (login: string) => nodes[0]!.replace('postgres@', `${login}@`);
  const urls = { superuser: url(logins.superuser), owner: url(logins.owner), service: url(logins.service) };
  try {
    await cloneDatabase(nodes, blankDatabase, template);
    await migrate(urls.owner + template);
    await distribute(urls.owner + template);
    await closeForClones(nodes, template);
  } catch (error) {
    await stop();
    throw error;
  }
  project.provide('postgres', {
    urls,
    nodes,
    templates: { migrated: template, nothing: blankDatabase },
    isCitus: true,
  });
  return stop;
}

const image = 'postgres:18';

/**
 * Starts the kind of server that is configured. By default it is a container if a Docker engine can start one, else an
 * embedded server. Prints which kind it is, and why.
 */
async function startServer(wish = ''): Promise<Server> {
  if (!['', 'embedded', 'containers'].includes(wish))
    throw withoutStack(`TEST_SERVERS must be embedded or containers, not ${wish}`);
  if (wish === 'embedded') return embedded('TEST_SERVERS');
  const client = await getContainerRuntimeClient().catch(() => undefined);
  if (!client && wish === '') return embedded('no Docker engine responds');
  try {
    const server = await startContainer();
    process.stdout.write('test servers: containers\n');
    return server;
  } catch (error) {
    const fault = `the Docker engine cannot start ${image}: ${(error as Error).message.trim()}`;
    if (wish === '') return embedded(fault);
    throw withoutStack(`${fault}\nPull the image, or use TEST_SERVERS=embedded`);
  }
}

function embedded(reason: string): Promise<Server> {
  process.stdout.write(`test servers: embedded (${reason})\n`);
  return startEmbedded();
}

/** Returns an error that is printed as its message alone: it is about the machine, not about a line of code. */
const withoutStack = (message: string): Error => Object.assign(new Error(message), { stack: message });

async function startEmbedded(): Promise<Server> {
  const server = await openThrowawayPostgres();
  const password = (url: string) => new URL(url).password;
  const passwords = {
    superuser: password(server.superuserUrl),
    owner: password(server.ownerUrl),
    service: password(server.serviceUrl),
  };
  return { superuserUrl: server.superuserUrl, passwords, stop: () => server.close() };
}

async function startContainer(): Promise<Server> {
  const secret = () => randomBytes(12).toString('hex');
  const passwords = { superuser: secret(), owner: secret(), service: secret() };
  const settings = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'max_connections=300'];
  const container = await new GenericContainer(image)
    .withEnvironment({
      POSTGRES_USER: logins.superuser,
      POSTGRES_PASSWORD: passwords.superuser,
      POSTGRES_INITDB_ARGS: '--locale-provider=builtin --builtin-locale=C.UTF-8', // the same locale as the embedded server
    })
    .withCommand(['postgres', ...settings.flatMap((setting) => ['-c', setting])])
    .withExposedPorts(5432)
    .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
    .start();
  const address = `${container.getHost()}:${container.getMappedPort(5432)}`;
  return {
    superuserUrl: `postgres://${logins.superuser}:${passwords.superuser}@${address}/postgres`,
    passwords,
    stop: () => container.stop(),
  };
}

/** Returns a URL for each login, without a database name. */
function loginUrls({ superuserUrl, passwords }: Server): Record<keyof Passwords, string> {
  const { host } = new URL(superuserUrl);
  const url = (login: keyof Passwords) => `postgres://${logins[login]}:${passwords[login]}@${host}/`;
  return { superuser: url('superuser'), owner: url('owner'), service: url('service') };
}

async function makeTemplate(server: Server): Promise<void> {
  const superuser = postgres(server.superuserUrl, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    await prepareDatabase(superuser, template, server.passwords);
    await migrate(`${loginUrls(server).owner}${template}`);
    await superuser`alter database ${superuser(template)} with is_template true allow_connections false`;
  } finally {
    await superuser.end({ timeout: 1 });
  }
}
