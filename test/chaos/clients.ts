import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JobType as AnyJobType } from '../../src/schemas/jobs.ts';

/** A client of the service: its customer, API key, lists and contacts. */
export interface Client {
  customerId: string;
  key: string;
  /** A key that may spend less than its customer has. Each request uses one of both. */
  cappedKey: string;
  lists: string[];
  contacts: { id: string; email: string }[];
}

/** What the clients saw. The audit compares it with the database. */
export interface Journal {
  /** Job ids by the Idempotency-Key that started them. More than one id for a key is a fault. */
  started: Map<string, Set<string>>;
  /** Types of the started jobs. */
  types: Set<JobType>;
  /** Number of requests sent, with retries and duplicates. */
  requests: number;
  retries: number;
  /** Number of starts rejected because of insufficient credits or a spend cap. */
  refused: number;
  /** Number of those rejected because of a spend cap. */
  capped: number;
  cancelled: number;
  /** Number of files that were sent for imports. */
  imports: number;
  /** Responses that no client should ever get. */
  surprises: string[];
}

/** The servers of the service. A server that is down has no URL. */
export type Servers = readonly { url: string | undefined }[];

export const emptyJournal = (): Journal => ({
  started: new Map(),
  types: new Set(),
  requests: 0,
  retries: 0,
  refused: 0,
  capped: 0,
  cancelled: 0,
  imports: 0,
  surprises: [],
});

const pick = <T>(items: readonly T[]): T => items[randomInt(items.length)]!;
const chance = (percent: number): boolean => randomInt(100) < percent;

/** Those that spend credits. */
type JobType = Exclude<AnyJobType, 'undo'>;

/** Relative frequencies with which clients start jobs of each type. */
const frequencies: Record<JobType, number> = {
  unlock_contacts: 4,
  unlock_selected_contacts: 3,
  verify_email: 2,
  verify_list: 1,
  enrich_contacts: 2,
};
const wanted = (Object.keys(frequencies) as JobType[]).flatMap((type) => Array<JobType>(frequencies[type]).fill(type));

/** A request that a client can send. */
interface Wish {
  path: string;
  body?: object;
}

/** A request that starts a job. */
interface Start extends Wish {
  type: JobType;
}

export class Caller {
  readonly #client: Client;
  readonly #servers: Servers;
  readonly #journal: Journal;
  readonly #prospects: readonly string[];
  readonly #domains: readonly string[];

  constructor(
    client: Client,
    world: { servers: Servers; journal: Journal; prospects: readonly string[]; domains: readonly string[] },
  ) {
    this.#client = client;
    this.#servers = world.servers;
    this.#journal = world.journal;
    this.#prospects = world.prospects;
    this.#domains = world.domains;
  }

  /**
   * Starts jobs one after another until `stopping` is aborted. Retries each start until it succeeds or is rejected, and
   * sometimes sends the same start three times at once.
   */
  async work(stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted) {
      const type = pick(wanted);
      const start = { ...this.#starts[type](), type };
      const key = randomUUID();
      const callers = chance(20) ? 3 : 1;
      await Promise.all(Array.from({ length: callers }, () => this.#insist(start, key, stopping)));
      if (chance(10)) await this.#cancelSomething();
      await sleep(randomInt(60));
    }
  }

  /** Functions that create a random start request for each job type. */
  readonly #starts: Record<JobType, () => Wish> = {
    unlock_contacts: () => ({
      path: '/service-handler/unlock-contacts',
      body: {
        filters: chance(50) ? { score: { gte: randomInt(100) } } : {},
        order_by: { score: pick(['ASC', 'DESC']) },
        total_records: randomInt(1, 400),
        sync_crm: chance(70),
      },
    }),
    unlock_selected_contacts: () => {
      const from = randomInt(this.#prospects.length - 60);
      const ids = this.#prospects.slice(from, from + randomInt(1, 60));
      return { path: '/service-handler/unlock-selected-contacts', body: { ids, sync_crm: chance(70) } };
    },
    verify_email: () => {
      const tag = randomUUID().slice(0, 8);
      const emails = Array.from({ length: randomInt(1, 40) }, () => this.#emailToVerify(tag));
      return { path: '/service-handler/verify-email', body: { emails, sync_crm: true, fresh: chance(50) } };
    },
    enrich_contacts: () => ({
      path: '/service-handler/enrich-contacts',
      body: {
        ...(chance(70)
          ? { contact_ids: this.#client.contacts.slice(randomInt(this.#client.contacts.length)).map(({ id }) => id) }
          : { filters: { score: { gte: randomInt(100) } } }),
        overwrite: chance(30),
        max_credits: randomInt(100),
      },
    }),
    verify_list: () => ({
      path: `/list-contact/verify-contacts/${pick(this.#client.lists)}`,
      body: { fresh: chance(50) },
    }),
  };

  /** Returns the email of a contact, or an email that no other job has. Sometimes the same email is returned twice. */
  #emailToVerify(tag: string): { email: string; contact_id?: string } {
    if (chance(80))
      return { email: `${pick(['ada', 'Ada', 'bob', 'zoe'])}${randomInt(5)}.${tag}@${pick(this.#domains)}` };
    const { id, email } = pick(this.#client.contacts);
    return { email, contact_id: id };
  }

  /** Retries a request until it gets a final response. */
  async #insist(start: Start, key: string, stopping: AbortSignal): Promise<void> {
    let patience = 100; // continues after the end for a while, because a client wants to know the outcome
    for (let attempt = 0; ; attempt += 1) {
      if (stopping.aborted && (patience -= 1) === 0) return;
      if (attempt > 0) this.#journal.retries += 1;
      const answer = await this.#post(start, { 'idempotency-key': key });
      if (answer && this.#isFinal(answer, key, start.type)) return;
      await sleep(randomInt(20, 150));
    }
  }

  #isFinal({ status, body }: Answer, key: string, type: JobType): boolean {
    if (status === 503) return false;
    if (status === 409 && body.code === 'conflict') return false;
    if (status === 402) {
      this.#journal.refused += 1;
      if (body.code === 'spend_cap_exceeded') this.#journal.capped += 1;
      return true;
    }
    if (status === 200) this.#note(key, type, (body.id ?? body.data?.id)!);
    else this.#journal.surprises.push(`${status} ${JSON.stringify(body)}`);
    return true;
  }

  #note(key: string, type: JobType, id: string): void {
    this.#journal.types.add(type);
    const ids = this.#journal.started.get(key) ?? new Set();
    this.#journal.started.set(key, ids.add(id));
  }

  async #cancelSomething(): Promise<void> {
    const listed = await this.#post({ path: '/service-handler/list', body: { paginate: { limit: 10 } } });
    const jobs = listed?.status === 200 ? (listed.body as unknown as { id: string; status: string }[]) : [];
    const running = jobs.filter(({ status }) => status === 'PENDING' || status === 'PROCESSING');
    if (running.length === 0) return;
    const answer = await this.#post({ path: `/service-handler/${pick(running).id}/cancel` });
    if (answer?.status === 200) this.#journal.cancelled += 1;
    else if (answer && ![409, 503].includes(answer.status))
      this.#journal.surprises.push(`cancel: ${answer.status} ${JSON.stringify(answer.body)}`);
  }

  /** Sends one request to a random server. Returns undefined if there was no response. */
  async #post({ path, body }: Wish, headers: Record<string, string> = {}): Promise<Answer | undefined> {
    const { url } = pick(this.#servers);
    if (!url) return undefined;
    this.#journal.requests += 1;
    try {
      const answer = await fetch(`${url}/api/ext${path}`, {
        method: 'POST',
        headers: {
          authorization: `X-API-Key ${pick([this.#client.key, this.#client.cappedKey])}`,
          'content-type': 'application/json',
          // Sometimes the server dies between its commit and its response, if it gets that far.
          ...(headers['idempotency-key'] && chance(1) ? { 'x-die-before-answer': '1' } : {}),
          ...headers,
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
        signal: AbortSignal.timeout(30_000),
      });
      return { status: answer.status, body: (await answer.json()) as Answer['body'] };
    } catch {
      return undefined;
    }
  }
}

interface Answer {
  status: number;
  body: { id?: string; code?: string; data?: { id?: string } };
}
