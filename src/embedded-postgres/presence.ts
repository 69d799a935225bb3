import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import postgres from 'postgres';
import { sessionSettings } from '../database/session-settings.ts';
import { runningPort, startServer, stopServer, type Cluster } from './cluster.ts';
import { EmbeddedPostgresError } from './programs.ts';

/**
 * Advisory lock that each process holds in shared mode while it uses the server. To stop the server, a process must get
 * it in exclusive mode.
 */
export const presenceLock = 8314045570;
const openTimeoutMs = 90_000;
const pollMs = 50;
/** Pause before a server that does not start, e.g. because its disk is full, is started again (ms). */
const restartPauseMs = 1_000;

interface PresenceLogin {
  username: string;
  password: string;
}

/** This process's use of the server: a connection whose lock keeps other processes from stopping it. */
export class Presence {
  readonly #cluster: Cluster;
  readonly #login: PresenceLogin;
  readonly #port: number;
  #sql: postgres.Sql;
  #log: FastifyBaseLogger | undefined;
  /** Resolves when the server runs again. Undefined while it runs. */
  #restart: Promise<void> | undefined;
  #isLost = false;
  #isClosed = false;

  private constructor(cluster: Cluster, login: PresenceLogin, { sql, port }: Entered) {
    this.#cluster = cluster;
    this.#login = login;
    this.#port = port;
    this.#sql = sql;
  }

  /** Starts the server if it does not run, and keeps other processes from stopping it. */
  static async begin(cluster: Cluster, login: PresenceLogin): Promise<Presence> {
    let presence: Presence | undefined;
    const entered = await attend(cluster, login, (sql) => {
      if (presence) presence.#noteLost(sql);
    });
    presence = new Presence(cluster, login, entered);
    return presence;
  }

  /** The connection that holds the lock, as superuser. */
  get sql(): postgres.Sql {
    return this.#sql;
  }

  get port(): number {
    return this.#port;
  }

  /**
   * Until `end`, starts the server again whenever it ends, and retries as long as it does not start, e.g. because the
   * disk is full.
   * @param log gets a line when the server has ended, does not start, and runs again
   */
  keepRunning(log: FastifyBaseLogger): void {
    this.#log = log;
  }

  /** Stops the server if no other process uses it and no client is connected. */
  async end(): Promise<void> {
    this.#isClosed = true;
    await this.#restart;
    try {
      await this.#sql`select pg_advisory_unlock_shared(${presenceLock})`;
      const [row] = await this.#sql<{ last: boolean }[]>`select pg_try_advisory_lock(${presenceLock}) as last`;
      // While this process holds the exclusive lock, no other process can start to use the server.
      if (row!.last && (await isDeserted(this.#sql))) await stopServer(this.#cluster);
    } catch (error) {
      if ((await runningPort(this.#cluster)) !== undefined) throw error; // not running: another process stopped it
    } finally {
      await this.#sql.end({ timeout: 1 });
    }
  }

  /** Ends this process's use without stopping the server. */
  async leaveRunning(): Promise<void> {
    this.#isClosed = true;
    await this.#restart;
    await this.#sql.end({ timeout: 0 });
  }

  /** Handles the end of a connection. If it held the lock, the server has ended. */
  #noteLost(sql: postgres.Sql): void {
    if (sql !== this.#sql || this.#isClosed || !this.#log) return;
    this.#isLost = true;
    this.#restart ??= this.#startAgain(this.#log).finally(() => (this.#restart = undefined));
  }

  async #startAgain(log: FastifyBaseLogger): Promise<void> {
    log.error('the embedded PostgreSQL has ended; starting it again');
    for (let failures = 0; this.#isLost && !this.#isClosed;) {
      try {
        const old = this.#sql;
        const { sql, port } = await attend(this.#cluster, this.#login, (lost) => this.#noteLost(lost), this.#port);
        this.#sql = sql;
        this.#isLost = false;
        await old.end({ timeout: 0 });
        if (port === this.#port) log.info('the embedded PostgreSQL runs again');
        else log.fatal({ port }, 'the embedded PostgreSQL runs on another port now; start this process again');
      } catch (error) {
        if (failures === 0) log.error({ reason: reasonOf(error) }, 'the embedded PostgreSQL does not start; trying on');
        failures += 1;
        await sleep(restartPauseMs, undefined, { ref: false });
      }
    }
  }
}

/**
 * Returns the last line in which the server says why it ended. Other lines of its log can contain values of customers.
 */
const reasonOf = (error: unknown): string =>
  String(error instanceof Error ? error.message : error)
    .split('\n')
    .findLast((line) => /\b(FATAL|PANIC):/.test(line)) ?? 'see server.log in the data folder';

interface Entered {
  sql: postgres.Sql;
  port: number;
}

/**
 * Starts the server if necessary, takes the shared lock, and returns the connection that holds it.
 * @param onclose called when a connection has ended
 * @param port default: the last one if it is free, else any
 */
async function attend(
  cluster: Cluster,
  login: PresenceLogin,
  onclose: (sql: postgres.Sql) => void,
  port?: number,
): Promise<Entered> {
  const deadline = Date.now() + openTimeoutMs;
  while (Date.now() < deadline) {
    const running = await runningPort(cluster);
    const sql = running === undefined ? await startServer(cluster, port) : await enter(running, login, onclose);
    if (running !== undefined && sql) return { sql, port: running };
    await sleep(pollMs);
  }
  throw new EmbeddedPostgresError(
    `The PostgreSQL in ${cluster.data} neither accepts connections nor stops. End its process and try again`,
  );
}

/**
 * Takes the shared lock and returns the connection that holds it, or undefined if the server is starting or stopping.
 */
async function enter(
  port: number,
  login: PresenceLogin,
  onclose: (sql: postgres.Sql) => void,
): Promise<postgres.Sql | undefined> {
  const presence: postgres.Sql = postgres({
    ...login,
    host: '127.0.0.1',
    port,
    database: 'postgres',
    max: 1,
    max_lifetime: null,
    fetch_types: false,
    connect_timeout: 10,
    onnotice: () => {},
    onclose: () => onclose(presence),
    connection: { application_name: 'sales-data-api presence', ...sessionSettings },
  });
  try {
    const [row] = await presence<{ present: boolean }[]>`
      select pg_try_advisory_lock_shared(${presenceLock}) as present`;
    if (row!.present) return presence;
  } catch (error) {
    if ((error as { code?: string }).code === '28P01')
      throw new EmbeddedPostgresError(
        'postgres.json does not have the passwords of the data folder beside it. Restore the matching file',
        error,
      );
  }
  await presence.end({ timeout: 0 });
  return undefined;
}

/** True if no other client is connected. Waits up to a second for clients that are disconnecting. */
async function isDeserted(presence: postgres.Sql): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const [row] = await presence<{ others: number }[]>`
      select count(*)::integer as others
      from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid()`;
    if (row!.others === 0) return true;
    await sleep(pollMs);
  }
  return false;
}
