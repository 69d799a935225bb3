import { beforeAll, describe, expect, test } from 'vitest';
import { contactBody } from '../setup/factories.ts';
import { backupPrograms, needBackupPrograms } from '../setup/postgres-programs.ts';
import { startServerProcess } from '../setup/server-process.ts';
import { asBackup, followAsServer, followHandbook, newFolder, newServer, newestDump } from './rig.ts';

interface Page {
  status: number;
  names: string[];
  cursor: string;
}

/** A caller of one service. */
class Caller {
  readonly #url: string;
  readonly #key: string;

  constructor(url: string, key: string) {
    this.#url = url;
    this.#key = key;
  }

  async #send(path: string, body: object): Promise<Response> {
    const headers = { authorization: `X-API-Key ${this.#key}`, 'content-type': 'application/json' };
    return fetch(`${this.#url}/api/ext${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  }

  /** Creates contacts, each with an event of its own. */
  async create(...names: string[]): Promise<void> {
    for (const name of names) {
      const answer = await this.#send('/contacts', contactBody({ external_id: name }));
      if (answer.status !== 201) throw new Error(await answer.text());
    }
  }

  /** Reads one page of the feed. */
  async read(cursor: string | undefined, limit: number): Promise<Page> {
    const answer = await this.#send('/events/list', { paginate: { limit, ...(cursor ? { cursor } : {}) } });
    const events = (await answer.json()) as { data: { external_id: string } }[];
    const names = answer.ok ? events.map(({ data }) => data.external_id) : [];
    return { status: answer.status, names, cursor: answer.headers.get('x-next-cursor') ?? '' };
  }
}

const namesOf = (prefix: string): string[] => Array.from({ length: 6 }, (_, i) => `${prefix} ${i}`);

describe.skipIf(backupPrograms === undefined)(`the feed in a restored dump ${needBackupPrograms}`, () => {
  /** The service before the dump, and the one on the restored database. */
  let [old, restored]: Caller[] = [];
  let half: Page;
  let end: Page;
  let beyond: Page;

  beforeAll(async () => {
    const server = await newServer();
    const BACKUPS = await newFolder(server.cluster.user);
    await followAsServer(['backup-login'], server);
    const KEY = await followHandbook(
      ['command', 'roles', 'secrets', 'addresses', 'first-customer'],
      server,
      {},
      '$KEY',
    );
    old = new Caller((await startServerProcess(server.url)).url, KEY);
    await old.create(...namesOf('read'));
    half = await old.read(undefined, 3);
    end = await old.read(half.cursor, 100);
    // Nobody has read these before the dump, so they have no positions in it.
    await old.create(...namesOf('unread'));
    const DUMP = await followAsServer(['backup'], server, { ...asBackup, BACKUPS }, newestDump);
    await old.create(...namesOf('lost'));
    beyond = await old.read(end.cursor, 100);
    const copy = await newServer();
    await followHandbook(['restore-dump'], copy, { DUMP });
    await followHandbook(['command', 'addresses', 'after-restore'], copy);
    restored = new Caller((await startServerProcess(copy.url)).url, KEY);
  });

  test('goes on at cursors from before the dump: nothing comes twice, and nothing is missing', async () => {
    expect([half.names, end.names]).toEqual([namesOf('read').slice(0, 3), namesOf('read').slice(3)]);
    expect(beyond.names).toEqual([...namesOf('unread'), ...namesOf('lost')]);
    await restored!.create('new');
    const page = await restored!.read(end.cursor, 100);
    expect(page.names).toEqual([...namesOf('unread'), 'new']);
    expect((await restored!.read(half.cursor, 100)).names).toEqual([...end.names, ...page.names]);
    expect(await restored!.read(page.cursor, 100)).toMatchObject({ status: 200, names: [] });
  });

  test('is 410 at a cursor from after the dump, however many changes follow', async () => {
    expect((await restored!.read(beyond.cursor, 100)).status).toBe(410);
    await restored!.create(...namesOf('other'));
    expect((await restored!.read(beyond.cursor, 100)).status).toBe(410);
    expect((await old!.read(beyond.cursor, 100)).status).toBe(200);
  });
});
