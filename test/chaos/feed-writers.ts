import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { contactBody, productBody } from '../setup/factories.ts';
import type { Servers } from './clients.ts';

const pick = <T>(items: readonly T[]): T => items[randomInt(items.length)]!;

interface Answer {
  status: number;
  body: any; // eslint-disable-line typescript/no-explicit-any
}

/** A record that a writer owns. */
interface Owned {
  id: string;
  noun: 'contact' | 'product';
  external_id: string | null;
}

/** Fields of each kind of record that writers change, in groups. Each change has new values. */
const changes = {
  contact: [['job_title'], ['first_name', 'last_name'], ['middle_name'], ['custom_fields.n', 'gender']],
  product: [['name'], ['price', 'unit']],
};

/** How writers write, each as often as its number says. */
const frequencies = {
  create: 8,
  change: 12,
  remove: 4,
  createMany: 3,
  changeMany: 6,
  removeMany: 1,
  import: 1,
};
type Way = keyof typeof frequencies;
const ways = (Object.keys(frequencies) as Way[]).flatMap((way) => Array<Way>(frequencies[way]).fill(way));

/**
 * Writes records of its own, in every way that a caller has. Each request is repeated until its outcome is known, so it
 * has had exactly one effect: retries of creates have an `Idempotency-Key`, a repeated change changes nothing, and of a
 * repeated deletion the second finds nothing. So the events of each record are known.
 */
export class FeedWriter {
  /** The events that each record must have, by its id. */
  readonly expected = new Map<string, string[]>();
  changes = 0;
  readonly #key: string;
  readonly #servers: Servers;
  readonly #most: number;
  #owned: Owned[] = [];
  #values = 0;

  /** @param most number of records of a batch or import */
  constructor(key: string, servers: Servers, most: number) {
    this.#key = key;
    this.#servers = servers;
    this.#most = most;
  }

  async work(stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted) await this[pick(ways)]();
  }

  async create(): Promise<void> {
    const noun = pick(['contact', 'product'] as const);
    const external_id = noun === 'contact' ? randomUUID() : null;
    const body = noun === 'contact' ? contactBody({ external_id }) : productBody();
    const answer = await this.#insist('POST', noun === 'contact' ? '/contacts' : '/products', body);
    this.#own({ id: answer.body.data.id, noun, external_id });
  }

  async change(): Promise<void> {
    const one = this.#some(1)[0];
    if (!one) return this.create();
    const names = pick(changes[one.noun]);
    await this.#insist('PATCH', `${pathOf(one)}/${one.id}`, this.#valuesFor(names));
    this.#expect(one, `${one.noun}.updated ${names.toSorted().join()}`);
  }

  async remove(): Promise<void> {
    const one = this.#some(1)[0];
    if (!one) return;
    await this.#insist('DELETE', `${pathOf(one)}/${one.id}`, undefined, [404]);
    this.#disown([one]);
  }

  async createMany(): Promise<void> {
    const items = Array.from({ length: 1 + randomInt(this.#most) }, () => contactBody({ external_id: randomUUID() }));
    const { body } = await this.#insist('POST', '/contacts/batch/create', { items });
    for (const [i, { id }] of body.data.results.entries())
      this.#own({ id, noun: 'contact', external_id: items[i]!['external_id'] as string });
  }

  async changeMany(): Promise<void> {
    const some = this.#some(this.#most, 'contact');
    if (some.length === 0) return this.createMany();
    const names = pick(changes.contact);
    const isById = pick([true, false]);
    const items = some.map(({ id, external_id }) => ({
      ...(isById ? { id } : { external_id }),
      ...this.#valuesFor(names),
    }));
    await this.#insist('POST', '/contacts/batch/update', { items, ...(isById ? {} : { match: 'external_id' }) });
    for (const one of some) this.#expect(one, `contact.updated ${names.toSorted().join()}`);
  }

  async removeMany(): Promise<void> {
    const some = this.#some(this.#most, 'contact');
    if (some.length === 0) return;
    await this.#insist('POST', '/contacts/batch/delete', { items: some.map(({ id }) => ({ id })) });
    this.#disown(some);
  }

  /** Changes and creates contacts by an import, and waits for its end. */
  async import(): Promise<void> {
    const some = this.#some(this.#most, 'contact');
    const made = Array.from({ length: 1 + randomInt(this.#most) }, () => randomUUID());
    const line = (external_id: string | null, more: object) =>
      JSON.stringify({ ...contactBody({ external_id }), ...more });
    const lines = [
      ...some.map(({ external_id }) => JSON.stringify({ external_id, ...this.#valuesFor(['job_title']) })),
      ...made.map((external_id) => line(external_id, {})),
    ];
    const asked = { object: 'contacts', mode: 'upsert', match: 'external_id', format: 'ndjson' };
    const { body } = await this.#insist('POST', '/imports', asked);
    const path = `/imports/${body.data.id}`;
    await this.#insist('PUT', `${path}/file`, lines.join('\n'), [409]);
    for (;;) {
      const { body: state } = await this.#insist('GET', path);
      if (state.status === 'COMPLETED') {
        if (state.failed > 0) throw new Error(`The import has failed records: ${JSON.stringify(state)}`);
        break;
      }
      if (['FAILED', 'CANCELLED'].includes(state.status)) throw new Error(JSON.stringify(state));
      await sleep(100);
    }
    for (const one of some) this.#expect(one, 'contact.updated job_title');
    const { body: found } = await this.#insist('POST', '/contacts/batch/read', {
      items: made.map((external_id) => ({ external_id })),
      match: 'external_id',
    });
    for (const [i, { id }] of found.data.results.entries()) this.#own({ id, noun: 'contact', external_id: made[i]! });
  }

  #valuesFor(names: readonly string[]): object {
    const n = (this.#values += 1);
    const values: Record<string, unknown> = {
      gender: `g${n}`,
      price: n,
      custom_fields: { n },
    };
    return Object.fromEntries(
      names.map((name) => {
        const field = name.split('.')[0]!;
        return [field, values[field] ?? `${name} ${n}`];
      }),
    );
  }

  #own(one: Owned): void {
    this.#owned.push(one);
    this.#expect(one, `${one.noun}.created`);
  }

  #disown(some: readonly Owned[]): void {
    this.#owned = this.#owned.filter((one) => !some.includes(one));
    for (const one of some) this.#expect(one, `${one.noun}.deleted`);
  }

  #expect({ id }: Owned, event: string): void {
    const events = this.expected.get(id) ?? [];
    events.push(event);
    this.expected.set(id, events);
    this.changes += 1;
  }

  /** Returns up to `most` different records. */
  #some(most: number, noun?: Owned['noun']): Owned[] {
    const all = this.#owned.filter((one) => noun === undefined || one.noun === noun);
    const from = randomInt(all.length + 1);
    return all.slice(from, from + 1 + randomInt(most));
  }

  /** Repeats a request until its outcome is known. */
  async #insist(method: string, path: string, body?: unknown, accepted: number[] = []): Promise<Answer> {
    const key = randomUUID();
    for (;;) {
      const answer = await this.#send(method, path, body, key);
      if (answer && (answer.status < 300 || accepted.includes(answer.status))) return answer;
      // The first request with the key, or as many imports as a customer may have.
      const mustWait = answer?.status === 409 && /running|have not ended/.test(String(answer.body.message));
      if (answer && answer.status !== 503 && !mustWait)
        throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      await sleep(randomInt(20, 100));
    }
  }

  async #send(method: string, path: string, body: unknown, key: string): Promise<Answer | undefined> {
    const { url } = pick(this.#servers);
    if (!url) return undefined;
    const isFile = typeof body === 'string';
    try {
      const answer = await fetch(`${url}/api/ext${path}`, {
        method,
        headers: {
          authorization: `X-API-Key ${this.#key}`,
          'content-type': isFile ? 'application/octet-stream' : 'application/json',
          'idempotency-key': key,
          // Sometimes the server dies between its commit and its response.
          ...(randomInt(1_000) < 3 && method !== 'GET' ? { 'x-die-before-answer': '1' } : {}),
        },
        ...(body === undefined ? {} : { body: isFile ? body : JSON.stringify(body) }),
        signal: AbortSignal.timeout(30_000),
      });
      return { status: answer.status, body: await answer.json() };
    } catch {
      return undefined;
    }
  }
}

const pathOf = ({ noun }: Owned): string => (noun === 'contact' ? '/contacts' : '/products');
