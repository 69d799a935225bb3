import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { companyBody, contactBody } from '../setup/factories.ts';
import { byFrequency, pick, type Client } from './client.ts';

/** A record that a writer owns. */
interface Owned {
  id: string;
  noun: 'contact' | 'company';
  external_id: string;
}
type Noun = Owned['noun'];

const someNoun = (): Noun => pick(['contact', 'contact', 'company']);

const paths = { contact: '/contacts', company: '/company' };

/** Fields of each kind of record that writers change, in groups. Each change has new values. */
const changes = {
  contact: [['job_title'], ['first_name', 'last_name'], ['middle_name'], ['custom_fields.n', 'gender']],
  company: [['company_name'], ['industry', 'size'], ['custom_fields.n', 'location_metro']],
};

/** How writers write, each as often as its number says. */
const ways = byFrequency({
  create: 8,
  change: 12,
  remove: 4,
  createMany: 3,
  changeMany: 6,
  removeMany: 1,
  import: 1,
});

/** Number of records of a batch or an import, at most. */
const most = Number(process.env['FEED_BATCH'] ?? 40);

/**
 * Writes records of its own, in every way that a caller has. Each request is repeated until its outcome is known, so it
 * has had exactly one effect: retries of creates have an `Idempotency-Key`, a repeated change changes nothing, and of a
 * repeated deletion the second finds nothing. So the events of each record are known.
 */
export class Writer {
  /** The events that each record must have, by its id. */
  readonly expected = new Map<string, string[]>();
  changes = 0;
  readonly #client: Client;
  #owned: Owned[] = [];
  #values = 0;

  constructor(client: Client) {
    this.#client = client;
  }

  async work(stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted) await this[pick(ways)]();
  }

  async create(): Promise<void> {
    const noun = someNoun();
    const external_id = randomUUID();
    const answer = await this.#client.insist('POST', paths[noun], this.#bodyFor(noun, external_id));
    this.#own({ id: answer.body.data.id, noun, external_id });
  }

  async change(): Promise<void> {
    const one = this.#some(1)[0];
    if (!one) return this.create();
    const names = pick(changes[one.noun]);
    await this.#client.insist('PATCH', `${paths[one.noun]}/${one.id}`, this.#valuesFor(names));
    this.#expect(one, `${one.noun}.updated ${names.toSorted().join()}`);
  }

  async remove(): Promise<void> {
    const one = this.#some(1)[0];
    if (!one) return;
    await this.#client.insist('DELETE', `${paths[one.noun]}/${one.id}`, undefined, { accepted: [404] });
    this.#disown([one]);
  }

  async createMany(noun = someNoun()): Promise<void> {
    const ids = Array.from({ length: 1 + randomInt(most) }, () => randomUUID());
    const items = ids.map((id) => this.#bodyFor(noun, id));
    const { body } = await this.#client.insist('POST', `${paths[noun]}/batch/create`, { items });
    for (const [i, { id }] of body.data.results.entries()) this.#own({ id, noun, external_id: ids[i]! });
  }

  async changeMany(): Promise<void> {
    const noun = someNoun();
    const some = this.#some(most, noun);
    if (some.length === 0) return this.createMany(noun);
    const names = pick(changes[noun]);
    const isById = pick([true, false]);
    const items = some.map(({ id, external_id }) => ({
      ...(isById ? { id } : { external_id }),
      ...this.#valuesFor(names),
    }));
    const match = isById ? {} : { match: 'external_id' };
    await this.#client.insist('POST', `${paths[noun]}/batch/update`, { items, ...match });
    for (const one of some) this.#expect(one, `${noun}.updated ${names.toSorted().join()}`);
  }

  async removeMany(): Promise<void> {
    const noun = someNoun();
    const some = this.#some(most, noun);
    if (some.length === 0) return;
    await this.#client.insist('POST', `${paths[noun]}/batch/delete`, { items: some.map(({ id }) => ({ id })) });
    this.#disown(some);
  }

  /** Changes and creates contacts by an import, and waits for its end. */
  async import(): Promise<void> {
    const some = this.#some(most, 'contact');
    const made = Array.from({ length: 1 + randomInt(most) }, () => randomUUID());
    const lines = [
      ...some.map(({ external_id }) => JSON.stringify({ external_id, ...this.#valuesFor(['job_title']) })),
      ...made.map((external_id) => JSON.stringify(this.#bodyFor('contact', external_id))),
    ];
    const asked = { object: 'contacts', mode: 'upsert', match: 'external_id', format: 'ndjson' };
    const { body } = await this.#client.insist('POST', '/imports', asked);
    const path = `/imports/${body.data.id}`;
    await this.#client.insist('PUT', `${path}/file`, lines.join('\n'), { accepted: [409] });
    for (;;) {
      const { body: state } = await this.#client.insist('GET', path);
      if (state.status === 'COMPLETED') {
        if (state.failed > 0) throw new Error(`The import has failed records: ${JSON.stringify(state)}`);
        break;
      }
      // Three others began while the file arrived.
      if (state.status === 'UPLOADED') await this.#client.insist('POST', `${path}/start`, {}, { accepted: [409] });
      if (['FAILED', 'CANCELLED'].includes(state.status)) throw new Error(JSON.stringify(state));
      await sleep(100);
    }
    for (const one of some) this.#expect(one, 'contact.updated job_title');
    const { body: found } = await this.#client.insist('POST', '/contacts/batch/read', {
      items: made.map((external_id) => ({ external_id })),
      match: 'external_id',
    });
    for (const [i, { id }] of found.data.results.entries()) this.#own({ id, noun: 'contact', external_id: made[i]! });
  }

  /** Half of the contacts get a company, if the writer has one. */
  #bodyFor(noun: Noun, external_id: string): object {
    if (noun === 'company') return companyBody({ external_id });
    const company = pick([true, false]) ? this.#some(1, 'company')[0] : undefined;
    return contactBody({ external_id, ...(company ? { company: { id: company.id } } : {}) });
  }

  #valuesFor(names: readonly string[]): object {
    const n = (this.#values += 1);
    const values: Record<string, unknown> = { gender: `g${n}`, custom_fields: { n } };
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
    const gone = new Set(some);
    this.#owned = this.#owned.filter((one) => !gone.has(one));
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
}
