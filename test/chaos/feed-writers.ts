import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { companyBody, contactBody, productBody } from '../setup/factories.ts';
import type { Servers } from './clients.ts';

const pick = <T>(items: readonly T[]): T => items[randomInt(items.length)]!;

interface Answer {
  status: number;
  body: any; // eslint-disable-line typescript/no-explicit-any
}

/** A record that a writer owns. */
interface Owned {
  id: string;
  noun: 'contact' | 'company' | 'product';
  external_id: string | null;
}
type Noun = Owned['noun'];
type Many = Exclude<Noun, 'product'>;

/** The noun of a batch or a merge. */
const someNoun = (): Many => pick(['contact', 'contact', 'company']);

const paths = { contact: '/contacts', company: '/company', product: '/products' };

/** Fields of each kind of record that writers change, in groups. Each change has new values. */
const changes = {
  contact: [['job_title'], ['first_name', 'last_name'], ['middle_name'], ['custom_fields.n', 'gender']],
  company: [['company_name'], ['industry', 'size'], ['custom_fields.n', 'location_metro']],
  product: [['name'], ['price', 'unit']],
};

/** What the GET of a record shows that no event tells of a write to it. */
const untold = new Set(['updated_at', 'list_ids']);

/** How writers write, each as often as its number says. */
const frequencies = {
  create: 8,
  change: 12,
  remove: 4,
  createMany: 3,
  changeMany: 6,
  removeMany: 1,
  merge: 4,
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
    const noun = pick(['contact', 'company', 'product'] as const);
    const external_id = noun === 'product' ? null : randomUUID();
    const answer = await this.#insist('POST', paths[noun], this.#bodyFor(noun, external_id));
    this.#own({ id: answer.body.data.id, noun, external_id });
  }

  async change(): Promise<void> {
    const one = this.#some(1)[0];
    if (!one) return this.create();
    const names = pick(changes[one.noun]);
    await this.#insist('PATCH', `${paths[one.noun]}/${one.id}`, this.#valuesFor(names));
    this.#expect(one, `${one.noun}.updated ${names.toSorted().join()}`);
  }

  async remove(): Promise<void> {
    const one = this.#some(1)[0];
    if (!one) return;
    await this.#insist('DELETE', `${paths[one.noun]}/${one.id}`, undefined, [404]);
    this.#disown([one]);
  }

  async createMany(noun = someNoun()): Promise<void> {
    const ids = Array.from({ length: 1 + randomInt(this.#most) }, () => randomUUID());
    const items = ids.map((id) => this.#bodyFor(noun, id));
    const { body } = await this.#insist('POST', `${paths[noun]}/batch/create`, { items });
    for (const [i, { id }] of body.data.results.entries()) this.#own({ id, noun, external_id: ids[i]! });
  }

  async changeMany(): Promise<void> {
    const noun = someNoun();
    const some = this.#some(this.#most, noun);
    if (some.length === 0) return this.createMany(noun);
    const names = pick(changes[noun]);
    const isById = pick([true, false]);
    const items = some.map(({ id, external_id }) => ({
      ...(isById ? { id } : { external_id }),
      ...this.#valuesFor(names),
    }));
    const match = isById ? {} : { match: 'external_id' };
    await this.#insist('POST', `${paths[noun]}/batch/update`, { items, ...match });
    for (const one of some) this.#expect(one, `${noun}.updated ${names.toSorted().join()}`);
  }

  async removeMany(): Promise<void> {
    const noun = someNoun();
    const some = this.#some(this.#most, noun);
    if (some.length === 0) return;
    await this.#insist('POST', `${paths[noun]}/batch/delete`, { items: some.map(({ id }) => ({ id })) });
    this.#disown(some);
  }

  /** Merges a few records. What the one that stays must tell is seen in its GETs before and after. */
  async merge(): Promise<void> {
    const noun = someNoun();
    const [kept, ...others] = this.#some(4, noun);
    if (!kept || others.length === 0) return;
    const path = `${paths[noun]}/${kept.id}`;
    const before = (await this.#insist('GET', path)).body;
    await this.#insist('POST', `${paths[noun]}/merge`, { id: kept.id, merge_ids: others.map(({ id }) => id) });
    const changed = differences(before, (await this.#insist('GET', path)).body);
    if (changed.length > 0) this.#expect(kept, `${noun}.updated ${changed.join()}`);
    this.#disown(others, ` ${kept.id}`);
  }

  /** Changes and creates contacts by an import, and waits for its end. */
  async import(): Promise<void> {
    const some = this.#some(this.#most, 'contact');
    const made = Array.from({ length: 1 + randomInt(this.#most) }, () => randomUUID());
    const lines = [
      ...some.map(({ external_id }) => JSON.stringify({ external_id, ...this.#valuesFor(['job_title']) })),
      ...made.map((external_id) => JSON.stringify(this.#bodyFor('contact', external_id))),
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
      // Three others began while the file arrived.
      if (state.status === 'UPLOADED') await this.#insist('POST', `${path}/start`, {}, [409]);
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

  /** Half of the contacts get a company, if the writer has one. */
  #bodyFor(noun: Noun, external_id: string | null): object {
    if (noun === 'product') return productBody();
    if (noun === 'company') return companyBody({ external_id });
    const company = pick([true, false]) ? this.#some(1, 'company')[0] : undefined;
    return contactBody({ external_id, ...(company ? { company: { id: company.id } } : {}) });
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

  /** @param more what the events have behind the type */
  #disown(some: readonly Owned[], more = ''): void {
    const gone = new Set(some);
    this.#owned = this.#owned.filter((one) => !gone.has(one));
    for (const one of some) this.#expect(one, `${one.noun}.deleted${more}`);
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
      // The first request with the key, or as many imports as a customer may have: this 409 is not the one that is accepted.
      const mustWait = answer?.status === 409 && /running|under way|wait for their/.test(String(answer.body.message));
      if (answer && !mustWait && (answer.status < 300 || accepted.includes(answer.status))) return answer;
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

/** Returns the members in which two answers of a record's GET differ, as `changed` names them. */
function differences(before: Record<string, unknown>, after: Record<string, unknown>): string[] {
  const told = (record: Record<string, unknown>): Record<string, unknown> => {
    const { custom_fields: fields, company, ...rest } = record as { custom_fields: object; company?: { id: string } };
    const custom = Object.entries(fields).map(([name, value]) => [`custom_fields.${name}`, value]);
    return { ...rest, ...Object.fromEntries(custom), company: company?.id };
  };
  const [old, now] = [told(before), told(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  return names.filter((name) => !untold.has(name) && !isDeepStrictEqual(old[name], now[name])).toSorted();
}
