import { beforeEach, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, make } from '../setup/factories.ts';
import { adminOfEachTest, textOf, visitorOf, type PageAnswer } from './visitor.ts';
let member: Awaited<ReturnType<typeof visitorOf>>;

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);
beforeEach(async () => {
  member = await visitorOf(app.fastify, customer.id, 'member');
});

type By = typeof admin;

/** Saves what a page shows, by the form to which its link leads. */
async function save(by: By, page: string, fields: Record<string, string>): Promise<PageAnswer> {
  const link = /href="(\/app\/views\/new\?[^"]*)"/.exec((await by.get(page)).body)?.[1];
  if (link === undefined) throw new Error(`${page} has no link that saves it`);
  const plain = link.replaceAll('&#61;', '=').replaceAll('&#38;', '&').replaceAll('&amp;', '&');
  return by.submit(plain, fields, '/app/views/new');
}

const namesOn = async (by: By, page: string): Promise<string[]> => {
  const [, list = ''] = /<ul class="chips views"[^>]*>([\s\S]*?)<\/ul>/.exec((await by.get(page)).body) ?? [];
  return [...list.matchAll(/<a href="\/app\/(?!views\/)[^>]*>([^<]*)<\/a>/g)].map(([, name]) => name!);
};

const deletion = async (by: By, page: string): Promise<string | undefined> =>
  /href="(\/app\/views\/[^"]*\/delete)"/.exec((await by.get(page)).body)?.[1];

test('a view keeps search, filters, order and columns under a name, and one click shows it again', async () => {
  await make(customer, '/contacts', contactBody({ last_name: 'Aalto', location_country: 'FI' }));
  await make(customer, '/contacts', contactBody({ last_name: 'Berg', location_country: 'SE' }));
  expect(await namesOn(member, '/app/contacts')).toEqual([]);
  const { location } = await save(member, '/app/contacts?country=FI&sort=last_name&columns=name.phone&from=1', {
    name: ' Finland ',
  });
  expect(location).toBe('/app/contacts?country=FI&sort=last_name&columns=name.phone');
  const shown = await member.get(location!);
  expect(textOf(shown)).toContain('Aalto');
  expect(textOf(shown)).not.toContain('Berg');
  expect(shown.body).toMatch(/aria-current="true"[^>]*>Finland/);
  expect(await namesOn(member, '/app/contacts')).toEqual(['Finland']);
  await save(member, '/app/contacts?country=SE', { name: 'Finland' });
  expect(await namesOn(member, '/app/contacts')).toEqual(['Finland']);
  expect(await namesOn(member, '/app/companies')).toEqual([]);
  const told = new URLSearchParams({ object: 'contacts', query: 'country=SE&done=deleted&n=5' }).toString();
  const forged = await member.submit(`/app/views/new?${told}`, { name: 'Told' }, '/app/views/new');
  expect(forged.location).toBe('/app/contacts?country=SE');
});

test('a view is seen by its owner only, or by everybody of the customer if it is for all', async () => {
  await save(admin, '/app/companies?country=DE', { name: 'Mine', for: 'me' });
  await save(admin, '/app/companies?country=AT', { name: 'Ours', for: 'all' });
  expect(await namesOn(admin, '/app/companies')).toEqual(['Mine', 'Ours']);
  expect(await namesOn(member, '/app/companies')).toEqual(['Ours']);
  const stranger = await visitorOf(app.fastify, (await app.customer()).id);
  expect(await namesOn(stranger, '/app/companies')).toEqual([]);
});

test('a view is deleted by its owner or an admin, after a question, and by nobody else', async () => {
  await save(admin, '/app/contacts?country=DE', { name: 'Ours', for: 'all' });
  await save(member, '/app/contacts?country=AT', { name: 'Theirs', for: 'all' });
  const ofAdmin = await deletion(admin, '/app/contacts?country=DE');
  expect(await deletion(member, '/app/contacts?country=DE')).toBeUndefined();
  expect((await member.get(ofAdmin!)).status).toBe(403);
  const token = await member.fieldsOf((await deletion(member, '/app/contacts?country=AT'))!);
  expect((await member.post(ofAdmin!, token)).status).toBe(403);
  const stranger = await visitorOf(app.fastify, (await app.customer()).id);
  expect((await stranger.get(ofAdmin!)).status).toBe(404);
  const ofMember = (await deletion(admin, '/app/contacts?country=AT'))!;
  expect(textOf(await admin.get(ofMember))).toContain('Theirs is deleted, for everybody.');
  expect((await admin.submit(ofMember)).location).toBe('/app/contacts');
  expect(await namesOn(member, '/app/contacts')).toEqual(['Ours']);
});

test('a name that is empty, and a view too many, are refused in words, and nothing is saved', async () => {
  const refused = async (fields: Record<string, string>) => {
    const answer = await save(admin, '/app/contacts?country=DE', fields);
    return [answer.status, textOf(answer)];
  };
  expect(await refused({ name: ' ' })).toEqual([400, expect.stringContaining('Must not be empty.')]);
  await app.owner`
    insert into saved_views (customer_id, user_id, object, name, query, is_shared)
    select ${customer.id}, ${admin.user.userId}, 'contacts', 'view ' || n, '', false
    from generate_series(1, 100) n`;
  expect(await refused({ name: 'One more' })).toEqual([409, expect.stringContaining('You have 100 views already')]);
  const replaced = await save(admin, '/app/contacts?country=DE', { name: 'view 7' });
  expect(replaced.status).toBe(303);
  expect((await save(member, '/app/contacts?country=DE', { name: 'Mine' })).status).toBe(303);
});
