import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import type { Catalog } from '../../../src/catalog/catalog.ts';
import { PersonIds } from '../../../src/catalog/parse-records.ts';
import { report } from '../../../src/catalog/privacy-report.ts';
import { erase, removeSuppression } from '../../../src/catalog/privacy.ts';
import type { Database, SharedDatabase } from '../../../src/database/db.ts';
import { readSuppressedPeople } from '../../../src/catalog/suppressed-people.ts';
import { toIdentifier } from '../../../src/queries/jobs/catalog-imports.ts';
import { insertSuppressions, openDigests, toBytes } from '../../../src/queries/jobs/privacy.ts';
import { formerProfileKey } from '../../../src/text/domains.ts';
import { unlockPeople } from '../../../src/queries/jobs/unlocks.ts';
import { syncProspects } from '../../../src/queries/crm/crm-sync.ts';
import type { Prospect } from '../../../src/schemas/prospects.ts';
import { customerWith, verify } from '../../jobs/calls.ts';
import { startApp } from '../../setup/app.ts';
import type { TestCustomer } from '../../setup/factories.ts';
import { person, writePeople } from '../people.ts';

const app = await startApp();
const services = { ...app, notify: () => undefined };

beforeAll(async () => {
  await app.catalog.prepare();
});

const byTests = { operator: 'tests' };

class Killed extends Error {}

/** Services that stop working before or after their `last` write, as if the process was killed there. */
function mortal(last: number, isWritten: boolean) {
  let writes = 0;
  const write = async <T>(work: () => Promise<T>): Promise<T> => {
    writes += 1;
    if (writes > last || (writes === last && !isWritten)) throw new Killed();
    const result = await work();
    if (writes === last) throw new Killed();
    return result;
  };
  const mortalDb = <D extends Database>(db: D): D => ({
    ...db,
    transaction: (work) => write(() => db.transaction(work)),
  });
  const db: SharedDatabase = { ...mortalDb(app.db), for: (...given) => mortalDb(app.db.for(...given)) };
  const { catalog } = app;
  const changing = ['remove', 'refresh', 'write', 'finish', 'purge'] as const;
  const mortalCalls = changing.map((name) => [
    name,
    (...given: never[]) => write<unknown>(() => (catalog[name] as (...given: never[]) => Promise<unknown>)(...given)),
  ]);
  return { db, catalog: { ...catalog, ...Object.fromEntries(mortalCalls) } as Catalog, notify: () => undefined };
}

/** Adds a person with two addresses whom two customers have unlocked; one has a contact of the person. */
async function addUnlocked(customers: readonly TestCustomer[], more: Partial<Prospect> = {}): Promise<Prospect> {
  const own = randomUUID();
  const one = person({
    work_email: `${own}@work.example`,
    emails: [`${own}@home.example`],
    profnet_url: `profnet.example/in/${own}`,
    ...more,
  });
  await writePeople(app.catalog, [one]);
  for (const [i, { id }] of customers.entries())
    await app.db.transaction(async (sql) => {
      const [job] = await sql<[{ id: string }]>`
        insert into jobs (customer_id, type, status, sync_crm, pool, total, cost, reserved, charged, started_at, progress)
        values (${id}, 'unlock_contacts', 'PROCESSING', true, 'subscription', 9, 1, 9, 1, now(),
          ${sql.json({ after: { id: one._id, values: [one.work_email] } })})
        returning id`;
      await unlockPeople(sql, id, [one], job.id);
      await sql`
        insert into job_results (customer_id, job_id, position, item, status, charged, result)
        values (${id}, ${job.id}, 1, ${one._id}, 'succeeded', 1, ${sql.json(one)})`;
      if (i === 0) await syncProspects(sql, id, [one]);
    });
  return one;
}

/** What an erasure leaves, of one person. */
async function leftOf({ _id, work_email }: Prospect) {
  const [rows] = await app.owner<[Record<string, unknown>]>`
    select
      (select count(*)::integer from prospects where id = ${_id}) as people,
      (select count(*)::integer from job_results where item = ${_id} and result is not null) as results,
      (select count(*)::integer from jobs where progress::text like ${`%${work_email}%`}) as positions,
      (select count(*)::integer from removals where prospect_id = ${_id}) as told,
      (select count(*)::integer from contacts where prospect_id = ${_id} and removal_requested_at is not null) as marked,
      (select count(*)::integer from journal where type = 'prospect.removed' and record_id = ${_id}) as events,
      (select count(*)::integer from suppressions where case_ref = ${_id}) as suppressed`;
  return rows;
}

test('an erasure that was killed before or after any of its writes ends, when repeated, as one that was not', async () => {
  const customers = [await app.customer(), await app.customer()];
  const whole = { people: 0, results: 0, positions: 0, told: 2, marked: 1, events: 2, suppressed: 4 };
  let boundaries = 0;
  for (let isOver = false; !isOver; boundaries += 1)
    for (const isWritten of [false, true]) {
      const one = await addUnlocked(customers);
      const identifier = { kind: 'email', value: one.work_email } as const;
      const noted = { operator: 'tests', case_ref: one._id };
      isOver = await erase(mortal(boundaries + 1, isWritten), identifier, noted).then(
        () => true,
        (error: unknown) => {
          expect(error).toBeInstanceOf(Killed);
          return false;
        },
      );
      if (!isOver) await erase(services, identifier, noted);
      expect([boundaries, isWritten, await leftOf(one)]).toEqual([boundaries, isWritten, whole]);
    }
  expect(boundaries).toBeGreaterThan(7);
});

test('who is erased again, after the first erasure was lifted, is told again, once', async () => {
  const customers = [await app.customer(), await app.customer()];
  const one = await addUnlocked(customers);
  const noted = { operator: 'tests', case_ref: one._id };
  const eraseOne = () => erase(services, { kind: 'email', value: one.work_email }, noted);
  const removedAt = () => app.owner<{ removed_at: string }[]>`
    select removed_at::text from removals where prospect_id = ${one._id} order by customer_id`;
  expect(await eraseOne()).toMatchObject({ told: 2 });
  expect(await eraseOne()).toMatchObject({ told: 0 });
  const first = await removedAt();
  await removeSuppression(services, undefined, noted);
  await writePeople(app.catalog, [one]);
  expect(await eraseOne()).toMatchObject({ told: 2 });
  expect(await eraseOne()).toMatchObject({ told: 0 });
  expect(await leftOf(one)).toMatchObject({ people: 0, told: 2, events: 4, suppressed: 4 });
  for (const [i, { removed_at }] of (await removedAt()).entries()) expect(removed_at > first[i]!.removed_at).toBe(true);
});

test.each(['id', 'email', 'profnet_url'] as const)(
  'customers learn of the erasure, by %s, of a person whom the catalog has no more',
  async (kind) => {
    const own = randomUUID();
    const [address, profile] = [`${own}@work.example`, `profnet.example/in/${own}`];
    const ids = await PersonIds.open(app.db);
    const { id } = kind === 'profnet_url' ? ids.ofUrl(`https://www.${profile}/`) : ids.ofEmail(address);
    const one = await addUnlocked([await app.customer(), await app.customer()], { _id: id, work_email: address });
    await app.catalog.remove([one._id]);
    await app.owner`delete from job_results where item = ${one._id}`;
    const identifier = { kind, value: { id, email: address, profnet_url: profile }[kind] };
    await erase(services, identifier, { operator: 'tests', case_ref: one._id });
    expect(await leftOf(one)).toMatchObject({ told: 2, marked: 1, events: 2, positions: 0 });
  },
);

test.each(['email', 'profnet_url'] as const)(
  'customers learn of the erasure, by %s, of a person who is only known from a contact; not of somebody else to whom the contact belonged',
  async (kind) => {
    const customers = [await app.customer(), await app.customer()];
    const [gone, other] = [await addUnlocked(customers), await addUnlocked(customers)];
    await app.catalog.remove([gone._id]);
    await app.owner`delete from job_results where item = ${gone._id}`;
    const { work_email: email, profnet_url: profile } = gone;
    await app.owner`
      update contacts set work_email = ${email}, profnet_url = ${profile} where prospect_id = ${other._id}`;
    const identifier = toIdentifier(kind, { email, profnet_url: profile! }[kind])!;
    await erase(services, identifier, { operator: 'tests', case_ref: gone._id });
    expect(await leftOf(gone)).toMatchObject({ told: 2, marked: 1, events: 2 });
    expect(await leftOf(other)).toMatchObject({ people: 1, told: 0, marked: 0 });
  },
);

test('the profile of another person that begins with the same text is not the person’s', async () => {
  const one = await addUnlocked([await app.customer()]);
  await addUnlocked([await app.customer()], { profnet_url: `${one.profnet_url}-2` });
  await app.catalog.remove([one._id]);
  const found = await report(services, toIdentifier('profnet_url', one.profnet_url!)!, byTests, 'export');
  expect(found.contacts).toMatchObject([{ prospect_id: one._id }]);
  expect(found.unlocks).toMatchObject([{ prospect_id: one._id }]);
});

test('an erasure deletes only those who have the given identifier, several only if that is confirmed, and holds who shares another', async () => {
  const own = randomUUID();
  const shared = { profnet_url: `https://de.profnet.example/in/jan%C3%A9-${own}` };
  const office = `${own}@office.example`;
  const [one, twin, none, other, former] = await Promise.all([
    addUnlocked([await app.customer()], shared),
    addUnlocked([], { profnet_url: `profnet.example/in/jané-${own}` }),
    ...[1, 2].map(() => addUnlocked([], { profnet_url: 'https://www.linkedin.com/in/' })),
    addUnlocked([], { emails: [office] }),
  ]);
  await addUnlocked([], { emails: [office], _id: randomUUID() });
  const noted = { operator: 'tests', case_ref: own };
  const stored = async (...people: Prospect[]) => (await app.catalog.find(people.map(({ _id }) => _id))).length;
  expect(await erase(services, { kind: 'email', value: one.work_email }, noted)).toMatchObject({
    deleted: 1,
    held: 1,
  });
  expect(await stored(one, twin)).toBe(0);
  await removeSuppression(services, toIdentifier('profnet_url', `profnet.example/in/jané-${own}`), noted);
  expect(await stored(one, twin)).toBe(1);
  expect(await erase(services, { kind: 'email', value: none.work_email }, noted)).toMatchObject({
    deleted: 1,
    held: 0,
  });
  expect(await stored(other!)).toBe(1);
  const both = { kind: 'email', value: office } as const;
  await expect(erase(services, both, noted)).rejects.toThrow('2 people have this identifier');
  expect(await stored(former!)).toBe(1);
  expect(await erase(services, both, noted, { isConfirmed: true })).toMatchObject({ deleted: 2 });
});

test.each(['profnet_url', 'email'] as const)(
  'a suppression, by %s, that an earlier release stored still keeps the person out',
  async (kind) => {
    const profnet_url = `https://de.profnet.example/in/${randomUUID()}`;
    const work_email = `${randomUUID()}@büro.example`;
    const digests = await app.db.lookup(openDigests);
    const digest = toBytes(digests.of(kind === 'email' ? work_email : formerProfileKey(profnet_url)));
    const row = { kind, digest, is_erasure: true, reason: 'test', case_ref: null } as const;
    await app.db.transaction((sql) => insertSuppressions(sql, [row]));
    const open = () => readSuppressedPeople(app.db);
    const one = person({ profnet_url, work_email });
    expect([(await open()).has(one), (await open()).isErased(person())]).toEqual([true, false]);
    const given = toIdentifier(kind, kind === 'email' ? work_email : profnet_url);
    expect(await removeSuppression(services, given, byTests)).toMatchObject({ lifted: 1 });
    expect((await open()).has(one)).toBe(false);
  },
);

test.each(['büro.example', 'xn--bro-hoa.example'])(
  'a person with an address at büro.example is found everywhere by the address at %s',
  async (given) => {
    const [customer, own] = [await customerWith(app, { verification: 10 }), randomUUID()];
    const work_email = `${own}@büro.example`;
    const { id: _id } = (await PersonIds.open(app.db)).ofEmail(work_email);
    const one = await addUnlocked([customer], { _id, work_email });
    await verify(customer, { emails: [{ email: work_email }] });
    await app.owner`update contacts set prospect_id = null where prospect_id = ${_id}`;
    await app.catalog.remove([_id]);
    const identifier = toIdentifier('email', `${own}@${given}`)!;
    const find = () => report(services, identifier, byTests, 'find');
    const [unlocked, mentioned] = [[{ prospect_id: _id }], [{ where: 'verifications', count: 1 }]];
    const found = { contacts: [{ customer_id: customer.id }], unlocks: unlocked, mentions: mentioned };
    expect(await find()).toMatchObject({ people: [{ place: 'job results' }], ...found });
    await app.owner`delete from job_results where item = ${_id}`;
    expect(await find()).toMatchObject({ people: [], ...found });
    await erase(services, identifier, { operator: 'tests', case_ref: own });
    expect(await leftOf(one)).toMatchObject({ told: 1 });
  },
);

test('a person is found in the results of jobs by an address with quotation marks', async () => {
  const one = await addUnlocked([await app.customer()], { emails: [`"Ada \\"L\\" ${randomUUID()}"@home.example`] });
  await app.catalog.remove([one._id]);
  await erase(services, { kind: 'email', value: one.emails[0]!.toLowerCase() }, byTests);
  expect(await leftOf(one)).toMatchObject({ results: 0, told: 1 });
});

test('an address that a customer gave to a verification is found before the job has come to it, and counted once after', async () => {
  const customer = await customerWith(app, { verification: 10 });
  const value = `${randomUUID()}@waits.example`;
  const { body } = await verify(customer, { emails: [{ email: ` ${value.toUpperCase()} ` }] });
  const mentions = async () => (await report(services, { kind: 'email', value }, byTests, 'find')).mentions;
  const once = [{ customer_id: customer.id, where: 'verifications', count: 1 }];
  expect(await mentions()).toMatchObject(once);
  await customer.post(`/service-handler/${body.id}/cancel`);
  expect((await app.owner`select from job_results where job_id = ${body.id}`).count).toBe(1);
  expect(await mentions()).toMatchObject(once);
});
