import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { companyBody, contactBody, make } from '../setup/factories.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

interface Copied {
  id: string;
  updated_at: string;
}

const bytesOf = (id: string) => Buffer.from(id.replaceAll('-', ''), 'hex');
const sha256 = (...parts: (Buffer | string)[]) => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** The digest of a copy, as decisions describe it. */
function digestOf(copy: Copied[], buckets: number) {
  const digest = Array.from({ length: buckets }, (_, bucket) => ({ bucket, count: 0, hash: 0n }));
  for (const { id, updated_at } of copy) {
    const of = digest[(sha256(bytesOf(id)).readUInt16BE() >> 4) % buckets]!;
    of.count += 1;
    of.hash ^= sha256(bytesOf(id), updated_at).readBigUInt64BE();
  }
  return digest.map(({ hash, ...rest }) => ({ ...rest, hash: hash.toString(16).padStart(16, '0') }));
}

test.each([
  ['/contacts', contactBody],
  ['/company', companyBody],
])(
  'the digest of %s is that of a copy by export and feed, at its cursor; writes without an event leave it',
  async (path, body) => {
    const ids: string[] = [];
    for (let i = 0; i < 30; i += 1) ids.push(await make(customer, path, body()));
    const [kept, merged] = [
      await make(customer, '/company', companyBody()),
      await make(customer, '/company', companyBody()),
    ];
    const contact = await make(customer, '/contacts', contactBody({ company: { id: merged } }));
    const list_ids = [(await customer.post('/list-contact', { name: 'List' })).body.id];
    const exported = await customer.post(`${path}/export`, { format: 'ndjson', fields: ['id', 'updated_at'] });
    const copy = new Map<string, Copied>(
      (exported.body as string)
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Copied)
        .map((one) => [one.id, one]),
    );
    await customer.patch(`${path}/${ids[0]}`, { industry: 'Changed' });
    await customer.delete(`${path}/${ids[1]}`);
    await make(customer, path, body());
    // Of the contact, none of these makes an event.
    await customer.patch(`/contacts/${contact}`, { first_name: 'Ada' });
    await customer.patch(`/contacts/${contact}`, { list_ids });
    await customer.post('/contacts/batch/update', { items: [{ id: contact, list_ids: [] }] });
    await customer.post('/company/merge', { id: kept, merge_ids: [merged] });

    let cursor = exported.headers['x-events-cursor'] as string;
    const events = await customer.post('/events/list', { paginate: { cursor, limit: 1_000 }, expand: true });
    for (const { type, data, record } of events.body as { type: string; data: Copied; record: Copied | null }[]) {
      if (!type.startsWith(path === '/company' ? 'company.' : 'contact.')) continue;
      if (record) copy.set(record.id, record);
      else copy.delete(data.id);
    }
    cursor = events.headers['x-next-cursor'] as string;

    for (const buckets of [1, 64, 4_096]) {
      const { body: digest } = await customer.post(`${path}/digest`, { buckets });
      expect(digest).toEqual({ cursor, buckets: digestOf([...copy.values()], buckets) });
    }
    const differing = digestOf([...copy.values()], 4).find(({ count }) => count > 0)!;
    const { body: one } = await customer.post(`${path}/digest`, { buckets: 4, bucket: differing.bucket });
    const listed = [...copy.values()]
      .filter(({ id }) => (sha256(bytesOf(id)).readUInt16BE() >> 4) % 4 === differing.bucket)
      .map(({ id, updated_at }) => ({ id, updated_at }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1));
    expect(one).toEqual({ cursor, buckets: [{ ...differing, records: listed }] });
    expect((await customer.post(`${path}/digest`, {})).body.buckets).toHaveLength(64);
  },
);

test('a digest of nothing has all buckets; a bucket that is none is 400', async () => {
  const { body } = await customer.post('/contacts/digest', { buckets: 3 });
  expect(body.buckets).toEqual(digestOf([], 3));
  expect((await customer.post('/company/digest', { bucket: 2 })).body.buckets).toEqual([
    { bucket: 2, count: 0, hash: '0000000000000000', records: [] },
  ]);
  expect(await customer.post('/contacts/digest', { buckets: 3, bucket: 3 })).toMatchObject({
    status: 400,
    body: { errors: [{ path: '/bucket' }] },
  });
});
