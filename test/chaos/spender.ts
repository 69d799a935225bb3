import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PaidJobType } from '../../src/schemas/jobs.ts';
import { byFrequency, chance, pick, type Client } from './client.ts';

/** What a client can ask for. */
export interface World {
  lists: string[];
  contacts: { id: string; email: string }[];
  prospects: readonly string[];
  domains: readonly string[];
}

/** What the clients of all customers were told. */
export interface Told {
  jobs: Set<string>;
  types: Set<PaidJobType>;
  /** Number of starts that a spend cap refused. */
  capped: number;
  /** Idempotency-Keys that started more than one job. */
  doubles: string[];
}

const types = byFrequency({
  unlock_contacts: 4,
  unlock_selected_contacts: 3,
  verify_email: 2,
  verify_list: 1,
  enrich_contacts: 2,
} satisfies Record<PaidJobType, number>);

/**
 * Starts jobs one after another until `stopping` is aborted, sometimes the same start three times at once, and sometimes
 * cancels one.
 */
export async function spend(client: Client, world: World, told: Told, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    const [type, key] = [pick(types), randomUUID()];
    const [path, body] = starts[type](world);
    const start = () => client.insist('POST', path, body, { accepted: [402], key });
    const answers = await Promise.all(Array.from({ length: chance(20) ? 3 : 1 }, start));
    const ids = new Set(answers.flatMap(({ status, body: { id, data } }) => (status === 200 ? [id ?? data.id] : [])));
    if (ids.size > 1) told.doubles.push(key);
    if (ids.size > 0) told.types.add(type);
    for (const id of ids) told.jobs.add(id);
    told.capped += Number(answers.some(({ body: { code } }) => code === 'spend_cap_exceeded'));
    if (chance(10)) await cancelSomething(client);
    await sleep(randomInt(60));
  }
}

/** Returns the path and the body of a random start of each type. */
const starts: Record<PaidJobType, (world: World) => [path: string, body: object]> = {
  unlock_contacts: () => {
    const filters = chance(50) ? { score: { gte: randomInt(100) } } : {};
    const order_by = { score: pick(['ASC', 'DESC']) };
    const more = { total_records: randomInt(1, 400), sync_crm: chance(70) };
    return ['/service-handler/unlock-contacts', { filters, order_by, ...more }];
  },
  unlock_selected_contacts: ({ prospects }) => {
    const from = randomInt(prospects.length - 60);
    const ids = prospects.slice(from, from + randomInt(1, 60));
    return ['/service-handler/unlock-selected-contacts', { ids, sync_crm: chance(70) }];
  },
  verify_email: ({ contacts, domains }) => {
    // Emails of contacts, and emails that no other job has. Some come twice.
    const tag = randomUUID().slice(0, 8);
    const emails = Array.from({ length: randomInt(1, 40) }, () => {
      const { id, email } = pick(contacts);
      const other = `${pick(['ada', 'Ada', 'bob', 'zoe'])}${randomInt(5)}.${tag}@${pick(domains)}`;
      return chance(80) ? { email: other } : { email, contact_id: id };
    });
    return ['/service-handler/verify-email', { emails, sync_crm: true, fresh: chance(50) }];
  },
  enrich_contacts: ({ contacts }) => {
    const ids = contacts.slice(randomInt(contacts.length)).map(({ id }) => id);
    const which = chance(70) ? { contact_ids: ids } : { filters: { score: { gte: randomInt(100) } } };
    return ['/service-handler/enrich-contacts', { ...which, overwrite: chance(30), max_credits: randomInt(100) }];
  },
  verify_list: ({ lists }) => [`/list-contact/verify-contacts/${pick(lists)}`, { fresh: chance(50) }],
};

async function cancelSomething(client: Client): Promise<void> {
  const { body } = await client.insist('POST', '/service-handler/list', { paginate: { limit: 10 } });
  const running = (body as { id: string; status: string }[]).filter(({ status }) => /PENDING|PROCESSING/.test(status));
  if (running.length > 0)
    await client.insist('POST', `/service-handler/${pick(running).id}/cancel`, undefined, { accepted: [409] });
}
