import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { contactBody, make, makeList, opportunityBody, unique } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, filledFields, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

/** Creates contacts with the API. */
async function makeContacts(number: number, more: object = {}): Promise<string[]> {
  const items = Array.from({ length: number }, (_, i) => ({
    first_name: 'Ada',
    last_name: `Lovelace ${i}`,
    work_email: `ada${i}@example.com`,
    phone_numbers: [],
    ...more,
  }));
  const { body } = await customer.post('/contacts/batch/create', { items });
  return body.data.results.map(({ id }: { id: string }) => id);
}

const idsIn = (html: string, path = 'contacts'): string[] =>
  [...html.matchAll(new RegExp(`name="id" value="([0-9a-f-]{36})"[\\s\\S]*?/app/${path}/`, 'g'))].map(([, id]) => id!);

describe('the list of contacts', () => {
  test('counts exactly up to 10,000', async () => {
    await makeContacts(1, { location_country: 'DE' });
    const counted = async () => textOf(await admin.get('/app/contacts?country=DE'));
    expect(await counted()).toContain(' 1 contact ');
    await app.owner`
      insert into contacts (customer_id, first_name, last_name, work_email, location_country, folded, terms)
      select customer_id, first_name, last_name, work_email, location_country, folded, terms
      from contacts, generate_series(1, 10000)
      where customer_id = ${customer.id} and location_country = 'DE'`;
    expect(await counted()).toContain('more than 10,000 contacts');
    await app.owner`delete from contacts where customer_id = ${customer.id} and id = (
      select max(id::text)::uuid from contacts where customer_id = ${customer.id} and location_country = 'DE')`;
    expect(await counted()).toContain(' 10,000 contacts');
    expectPage(await admin.get('/app/contacts?page=nonsense'), 400, 'there is no such page');
    expectPage(await admin.get('/app/contacts?since=nonsense'), 400, 'Something in this link is not valid');
    expect((await admin.get('/app/contacts?search=%00')).status).toBe(400);
  });
});

test('a search for contacts leads to the companies that it finds, and a search for companies to the contacts', async () => {
  const word = unique('Harborside');
  await make(customer, '/company', { company_name: word, type: 'prospect' });
  const contacts = await admin.get(`/app/contacts?search=${word}`);
  expect(textOf(contacts)).toMatch(new RegExp(`“${word}” in: .* · Companies .*No contact matches`));
  await make(customer, '/contacts', contactBody({ last_name: word }));
  expect(textOf(await admin.get(`/app/companies?search=${word}`))).toContain(
    `“${word}” in: Industry · Type · Contacts`,
  );
});

test('the search beside each page finds records and lists, tells them apart, and leads to the only one', async () => {
  const word = unique('Wharf');
  const found = `/app/search?search=${word}`;
  expect((await admin.get('/app')).body).toMatch(
    /action="\/app\/search"[^]*data-suggest="\/app\/search"[^>]*>\s*<input type="hidden" name="find"/,
  );
  const nothing = await admin.get(`${found}&find=1`);
  expectPage(
    nothing,
    200,
    /Nothing is found The search looks at contacts, companies, opportunities and lists\. New contact$/,
  );
  expect(nothing.body).toContain(`name="search" value="${word}"`);
  const id = await make(customer, '/contacts', contactBody({ first_name: 'Ada', last_name: word }));
  expect((await admin.get(`${found}&find=1`)).location).toBe(`/app/contacts/${id}`);
  expectPage(await admin.get(found), 200, `Ada ${word} Contact · `);
  const company = await make(customer, '/company', { company_name: word, type: 'prospect', domain: 'x.example' });
  const both = await admin.get(`${found}&find=1`);
  expectPage(both, 200, new RegExp(` ${word} Company · x\\.example Ada ${word} Contact · `));
  expect(both.body).toContain(`href="/app/companies/${company}"`);
  await make(customer, '/opportunities', await opportunityBody(customer, { name: `${word} crane` }));
  await customer.post('/list-contact', { name: `Guests of ${word.toUpperCase()}` });
  const every = new RegExp(
    `${word} crane Opportunity · Lead · US\\$[\\d.,]+ Guests of ${word.toUpperCase()} List Look further in`,
  );
  expectPage(await admin.get(`${found}&find=1`), 200, every);
  expect((await admin.get(found)).body).not.toContain('crane');
  expect((await admin.get('/app/search?search=+&find=1')).location).toBe('/app/contacts');
  expect((await admin.get('/app/search?search=%00')).status).toBe(400);
});

describe('a view of contacts', () => {
  const linkIn = (html: string, pattern: RegExp): string =>
    pattern.exec(html)![1]!.replaceAll(/&#(\d+);/g, (_entity, code) => String.fromCodePoint(Number(code)));

  test('shows a chip for each filter, which takes it away, and mine in one click', async () => {
    await makeContacts(2, { location_country: 'DE', assigned_to: admin.user.userId });
    await makeContacts(3, { location_country: 'DE' });
    const page = await admin.get('/app/contacts?country=DE&title=');
    expect(textOf(page)).toContain('Country: Germany × Clear all');
    const mine = await admin.get(linkIn(page.body, /href="([^"]+)"[^>]*>\s*Mine/));
    expect(textOf(mine)).toMatch(/Owner: .*\(me\).* 2 contacts/);
    const without = linkIn(mine.body, /href="([^"]+)" aria-label="Take away: Country"/);
    expect(without).toBe(`/app/contacts?owner=${admin.user.userId}`);
    expect(textOf(await admin.get('/app/contacts?since=2999-01-01'))).toContain('No contact matches');
  });

  test('reads the name of a country in its address in any language', async () => {
    for (const country of ['Deutschland', 'Germany', 'de'])
      expect((await admin.get(`/app/contacts?country=${country}&title=CEO`)).location).toBe(
        '/app/contacts?country=DE&title=CEO',
      );
  });

  test('is sorted by its heads, up and down, and shows the columns that are chosen', async () => {
    await makeContacts(3);
    const names = (html: string) => html.match(/Ada Lovelace \d(?=\s*<\/a)/g);
    const up = await admin.get(linkIn((await admin.get('/app/contacts')).body, /<a href="([^"]+)">Name</));
    expect([names(up.body)?.at(0), up.body.includes('aria-sort="ascending"')]).toEqual(['Ada Lovelace 0', true]);
    const down = await admin.get(linkIn(up.body, /<a href="([^"]+)">Name</));
    expect(names(down.body)?.at(0)).toBe('Ada Lovelace 2');
    const some = await admin.get('/app/contacts?columns=score&columns=owner&columns=name');
    expect(some.body.match(/<th\s/g)).toHaveLength(3);
    expect(linkIn(some.body, /href="([^"]+)" download>Excel/)).toContain('columns=score.owner.name');
  });

  test('leads to no page after its last record', async () => {
    await makeContacts(25);
    expect((await admin.get('/app/contacts')).body).not.toContain('rel="next"');
    await makeContacts(1);
    expect((await admin.get('/app/contacts')).body).toContain('rel="next"');
  });

  test('says which records it shows, leads back and forth, and from one record to the next', async () => {
    const ids = (await makeContacts(60)).toReversed();
    const next = (html: string) => linkIn(html, /href="([^"]+)" rel="next"/);
    const older = next((await admin.get('/app/contacts?columns=title&columns=score')).body);
    expect([older.includes('cursor='), older.includes('columns=title&columns=score')]).toEqual([true, true]);
    const second = await admin.get(older);
    expect(textOf(second)).toContain('26–50 of 60 contacts');
    const third = await admin.get(next(second.body));
    expect(textOf(third)).toContain('51–60 of 60 contacts');
    const back = await admin.get(linkIn(third.body, /href="([^"]+)" rel="prev"/));
    expect(idsIn(back.body)).toEqual(ids.slice(25, 50));
    const referer = `https://sales.example${next((await admin.get('/app/contacts')).body)}`;
    const here = `/app/contacts/${ids[26]}`;
    const entered = (await admin.get(here, { referer })).location!;
    const record = await admin.get(entered);
    expect(textOf(record)).toContain('Previous Next');
    const following = linkIn(record.body, /href="([^"]+)" rel="next"/);
    expect(following).toContain(`/app/contacts/${ids[27]}?in=`);
    expect(textOf(await admin.get(following))).toContain('Previous Next');
    expect(textOf(await admin.get(`/app/contacts/${ids[26]}`))).not.toContain('Previous Next');
    const saved = await admin.submit(entered, { type: 'call', body: 'No answer' }, entered);
    expect(textOf(await admin.get(saved.location!))).toMatch(/Previous Next .* It is saved\. .* No answer/);
    const listed = await admin.get(`${here}?done=listed`, { referer: `https://sales.example${entered}` });
    expect(textOf(await admin.get(listed.location!))).toContain('Previous Next');
    const edit = linkIn(record.body, /href="([^"]+edit\?in[^"]+)"/);
    const edited = await admin.submit(edit, { job_title: 'CEO' }, edit);
    expect(textOf(await admin.get(edited.location!))).toMatch(/Previous Next .* It is saved\./);
    const wide = `https://sales.example/app/contacts?columns=${'custom~x.'.repeat(1_000)}`;
    expect([
      (await admin.get(here, { referer: wide })).status,
      (await admin.get(`${here}?in=cursor%3Dx`)).status,
      (await admin.get(`${here}?in=${'%26'.repeat(1001)}`)).status,
    ]).toEqual([200, 200, 200]);
    const alone = await admin.get(`/app/contacts/${ids[26]}?in=search%3Dada33%40example.com`);
    expect([alone.status, alone.body.includes('In the list')]).toEqual([200, false]);
  });
});

describe('a contact', () => {
  test('is created, shown, changed and deleted by forms', async () => {
    const called = await admin.submit('/app/contacts/new', { last_name: 'Byron', phone_numbers: '+44 20 7946 0000' });
    expect([called.status, textOf(called)]).toEqual([303, '']);
    const { body: byron } = await customer.get(`/contacts/${called.location!.split(/[/?]/)[3]}`);
    expect(byron).toMatchObject({ work_email: '', phone_numbers: [{ country_code: '+44', number: '2079460000' }] });
    const made = await admin.submit('/app/contacts/new', {
      first_name: 'Grace',
      last_name: 'Hopper',
      work_email: 'grace@example.com',
      phone_numbers: '+1 212 555 2368\r\n',
      company: 'Navy',
    });
    expect(made.status).toBe(303);
    const path = made.location!.split('?')[0]!;
    await customer.patch(path.replace('/app', ''), { custom_fields: { Rank: 'Admiral' } });
    const { body } = await customer.get(`/contacts/${path.split('/').at(-1)}`);
    expect(body).toMatchObject({
      phone_numbers: [{ country_code: '+1', number: '2125552368' }],
      company: { company_name: 'Navy' },
    });
    expect(textOf(await admin.get(path))).toMatch(/Grace Hopper.*\+1 212 555 2368.*Navy.*Rank Admiral/);
    expect((await admin.submit(`${path}/edit`, { job_title: 'Professor' })).status).toBe(303);
    const changed = (await customer.get(`/contacts/${body.id}`)).body;
    expect(changed).toEqual({ ...body, job_title: 'Professor', updated_at: changed.updated_at });
    expect((await admin.submit(`${path}/delete`)).location).toMatch(
      /^\/app\/contacts\?done=deleted&change=[0-9a-f-]{36}$/,
    );
    expect((await customer.get(`/contacts/${body.id}`)).status).toBe(404);
  });

  test('keeps the line breaks of its values, whatever else a form changes', async () => {
    const texts = { job_title: 'Head\nof Sales', custom_fields: { Note: '\nfirst\r\nsecond', Plan: 'gold' } };
    const [id] = await makeContacts(1, texts);
    const path = `/app/contacts/${id}/edit`;
    // A browser takes line breaks out of an input, and sends those of a text area as CR LF.
    const { body } = await admin.get(path);
    const areas = [...body.matchAll(/<textarea [^>]*name="([^"]+)"[^>]*>\n?([^<]*)<\/textarea>/g)].map(
      ([, name, value]) => [name, value!.replaceAll(/\r\n?|\n/g, '\r\n')],
    );
    const inputs = [...body.matchAll(/<input [^>]*name="([^"]+)" value="([^"]*)"/g)].map(([, name, value]) => [
      name,
      value!.replaceAll(/[\r\n]/g, ''),
    ]);
    const given = Object.fromEntries([...inputs, ...areas]) as Record<string, string>;
    const { etag, form_token } = filledFields(body, path) as { etag: string; form_token: string };
    const sent = { ...given, etag, form_token, first_name: 'Augusta' };
    expect((await admin.post(path, sent)).status).toBe(303);
    const { first_name, job_title, custom_fields } = (await customer.get(`/contacts/${id}`)).body;
    expect({ first_name, job_title, custom_fields }).toEqual({ first_name: 'Augusta', ...texts });
  });

  test('refuses a new text that is no phone number, and keeps one that is stored', async () => {
    const odd = { mobile_phone: '12ab', phone_numbers: [{ country_code: '', number: 'ask Joe' }] };
    const [id] = await makeContacts(1, odd);
    const edit = (fields: Record<string, string>) => admin.submit(`/app/contacts/${id}/edit`, fields);
    expect((await edit({ job_title: 'CEO', mobile_phone: '12ab', phone_numbers: 'ask Joe' })).status).toBe(303);
    for (const name of ['mobile_phone', 'phone_numbers']) {
      const { status, body } = await edit({ [name]: '13ab' });
      expect([status, body]).toEqual([
        400,
        expect.stringContaining(`id="${name}-fault">“13ab” is not a phone number.`),
      ]);
    }
  });

  test('shows all faults of its form at once, each at its field', async () => {
    await customer.call('PUT', '/fields/contacts/Since', { label: 'Since', type: 'date' });
    const wrong = {
      work_email: 'none',
      birth_year: 'old',
      phone_numbers: 'ask Joe',
      mobile_phone: 'no',
      location_country: 'Atlantis',
      assigned_to: randomUUID(),
      'custom.Since': 'yesterday',
    };
    const [id] = await makeContacts(1);
    for (const path of ['/app/contacts/new', `/app/contacts/${id}/edit`]) {
      const { status, body } = await admin.submit(path, wrong);
      const faults = [...body.matchAll(/id="([\w.]+)-fault"/g)].map(([, name]) => name!);
      expect([status, new Set(faults)]).toEqual([400, new Set(Object.keys(wrong))]);
    }
  });

  test('keeps the phone numbers that a form leaves as they are, also if it adds or removes others', async () => {
    const phone_numbers = [
      { country_code: '+1', number: '555-0100' },
      { country_code: '', number: '0351 4567890' },
      { country_code: '+44', number: '20 7946 0000' },
      { country_code: '', number: 'ask Joe\r\nor his desk' },
    ];
    const [id] = await makeContacts(1, { phone_numbers, location_country: 'DE' });
    const lines = '+1 555-0100\r\n+44 20 7946 0000\r\n+49 30 901820\r\n0351 4567890\r\nask Joe or his desk\r\n';
    expect((await admin.submit(`/app/contacts/${id}/edit`, { phone_numbers: lines })).status).toBe(303);
    expect((await customer.get(`/contacts/${id}`)).body.phone_numbers).toEqual([
      phone_numbers[0],
      phone_numbers[2],
      { country_code: '+49', number: '30901820' },
      phone_numbers[1],
      phone_numbers[3],
    ]);
  });
});

test('the form of a new company asks for its type; that of a company that came with a contact need not be given one', async () => {
  const required = async (path: string) =>
    [...(await admin.get(path)).body.matchAll(/name="(\w+)"[^>]* required/g)].map(([, name]) => name);
  expect(await required('/app/companies/new')).toEqual(['company_name', 'type']);
  await makeContacts(1, { company: { name: 'Navy' } });
  const { body } = await customer.post('/company/list', { filters: { company_name: 'Navy' } });
  expect(await required(`/app/companies/${body[0].id}/edit`)).toEqual(['company_name']);
});

describe('chosen contacts', () => {
  const ask = (query: string) => admin.get(`/app/contacts/chosen?${query}`);
  const confirm = async (query: string, more: Record<string, string> = {}) => {
    const { body } = await ask(query);
    const ids = [...body.matchAll(/type="hidden" name="id" value="([^"]+)"/g)].map(([, id]) => id!);
    return admin.post('/app/contacts/chosen', {
      ...filledFields(body, '/app/contacts/chosen'),
      ...(ids.length ? { id: ids } : {}),
      ...more,
    });
  };

  test('are deleted all or none, and only if they are still those that were shown', async () => {
    const ids = await makeContacts(5, { location_country: 'DE' });
    const { body } = await ask('do=delete&all=1&country=DE');
    expect(body).toContain('Delete: 5 contacts');
    await makeContacts(1, { location_country: 'DE' });
    const sent = filledFields(body, '/app/contacts/chosen');
    const refused = await admin.post('/app/contacts/chosen', sent);
    expectPage(refused, 412, /Delete: 6 contacts .* nothing of yours is done yet/);
    expect((await customer.get(`/contacts/${ids[0]}`)).status).toBe(200);
    const again = filledFields(refused.body, '/app/contacts/chosen');
    const clicks = [await admin.post('/app/contacts/chosen', again), await admin.post('/app/contacts/chosen', again)];
    expect(clicks.map(({ status }) => status)).toEqual([303, 303]);
    expect(clicks[1]!.location).toBe('/app/deleted');
    expect(textOf(await admin.get('/app/contacts?done=deleted&n=6'))).toContain('6 contacts are deleted.');
    expect((await customer.get(`/contacts/${ids[0]}`)).status).toBe(404);
  });

  test('are added to a list, new or existing, which is created once', async () => {
    const ids = await makeContacts(3);
    const list = await makeList(app.fastify, customer);
    await confirm(`do=list&id=${ids[0]}&id=${ids[1]}`, { list_id: list });
    const nameless = await confirm(`do=list&all=1`, { list_id: 'new', name: '' });
    expect(nameless.status).toBe(400);
    const twice = { form_token: (await admin.fieldsOf('/app/contacts/chosen?do=list&all=1'))['form_token']! };
    // A name counts, also if the choice of a list stays as it was.
    for (const _ of [1, 2])
      expect((await confirm('do=list&all=1', { list_id: list, name: 'Everybody', ...twice })).status).toBe(303);
    const { body } = await customer.post('/list-contact/list', {});
    expect(body.map((one: { contacts_count: number }) => one.contacts_count)).toEqual([3, 2]);
  });

  test('are left as they are in a view whose address is too long to say what was done', async () => {
    const [id] = await makeContacts(1);
    const list = await makeList(app.fastify, customer);
    await customer.patch(`/contacts/${id}`, { list_ids: [list] });
    const form = await admin.fieldsOf(`/app/contacts/chosen?do=out&all=1&list=${list}`);
    const columns = Array.from({ length: 100 }, (_, i) => `custom~${i}${'o'.repeat(90)}`).join('.');
    const out = await admin.post('/app/contacts/chosen', { ...form, choice: `${form['choice']}&columns=${columns}` });
    expectPage(out, 400, 'these filters and columns are too long together');
    expect((await customer.get(`/list-contact/${list}`)).body.contacts_count).toBe(1);
  });

  test('are assigned to a colleague or to nobody, with an undo, and no stranger', async () => {
    const [id, other] = await makeContacts(2);
    const assigned = async () => (await customer.get(`/contacts/${id}`)).body.assigned_to;
    const { userId: user_id } = (await visitorOf(app.fastify, customer.id, 'member')).user;
    const done = await confirm(`do=assign&id=${id}&id=${other}`, { assigned_to: user_id });
    expect(textOf(await admin.get(done.location!))).toMatch(/2 contacts are assigned. Undo/);
    expect(await assigned()).toBe(user_id);
    expect((await confirm(`do=assign&id=${id}`, { assigned_to: randomUUID() })).status).toBeGreaterThanOrEqual(400);
    await confirm(`do=assign&id=${id}`, { assigned_to: '' });
    expect(await assigned()).toBeNull();
  });

  test('get the values that a form gives and keep the others, in the view in which they were chosen', async () => {
    await makeContacts(2, { job_title: 'Clerk', location_country: 'DE', location_locality: 'Bonn' });
    const empty = await confirm('do=edit&all=1&country=DE');
    expectPage(empty, 400, 'Give at least one value.');
    const done = await confirm('do=edit&all=1&country=DE', { job_title: 'Countess', company: 'Navy' });
    expect(done.location).toMatch(/^\/app\/contacts\?country=DE&done=edited&n=2&change=/);
    expectPage(await admin.get(done.location!), 200, '2 contacts are changed. Undo');
    const { body } = await customer.post('/contacts/list', { filters: { location_country: 'DE' } });
    const changed = { job_title: 'Countess', location_locality: 'Bonn', company: { company_name: 'Navy' } };
    expect(body).toMatchObject([changed, changed]);
  });

  test('are verified by admins only, once for each form, with the price first', async () => {
    const [id] = await makeContacts(1);
    const member = await visitorOf(app.fastify, customer.id, 'member');
    expect((await member.get(`/app/contacts/chosen?do=verify&id=${id}`)).status).toBe(403);
    expect(textOf(await ask(`do=verify&id=${id}`))).toMatch(/At most 1 credit ?; 0 are available. That is 1 too few/);
    expect((await confirm(`do=verify&id=${id}`)).status).toBe(402);
    await app.owner`update credit_balances set available = 5 where customer_id = ${customer.id}`;
    const sent = { ...filledFields((await ask(`do=verify&id=${id}`)).body, '/app/contacts/chosen') };
    const dearer = await admin.post('/app/contacts/chosen', { ...sent, price: '0' });
    expectPage(dearer, 402, /would cost more.*At most 1 credit/);
    expect(filledFields(dearer.body, '/app/contacts/chosen')['price']).toBe('1');
    expect((await admin.post('/app/contacts/chosen', sent)).location).toMatch(/^\/app\/jobs\/[0-9a-f-]{36}$/);
    expect((await admin.post('/app/contacts/chosen', sent)).location).toBe('/app/jobs?done=sent');
    expect(await app.owner`select 1 from jobs where customer_id = ${customer.id}`).toHaveLength(1);
  });

  test('are deleted by a member up to 100, and by an admin if they are more', async () => {
    const member = await visitorOf(app.fastify, customer.id, 'member');
    await makeContacts(101);
    const question = '/app/contacts/chosen?do=delete&all=1';
    expectPage(await member.submit(question, {}), 400, 'Only an admin deletes more than 100 at once.');
    expect((await customer.post('/contacts/metadata', {})).body.pagination.total_records).toBe(101);
    expect((await admin.submit(question, {})).status).toBe(303);
  });
});

test('a new contact that may be there already is asked about, with a link to it, and created all the same if wanted', async () => {
  const [id] = await makeContacts(1, { company: { name: 'Navy' } });
  const { work_email, first_name, last_name } = (await customer.get(`/contacts/${id}`)).body;
  await make(customer, '/contacts', contactBody({ work_email: 'third@example.com' }));
  const path = '/app/contacts/new';
  for (const known of [{ work_email }, { first_name, last_name, company: 'navy', work_email: 'new@example.com' }]) {
    const asked = await admin.submit(path, known);
    expectPage(asked, 409, 'You may have this contact already');
    expect(asked.body).toContain(`/app/contacts/${id}`);
    expect(asked.body).not.toContain('value="save"');
    const again = { ...filledFields(asked.body, path), ...known };
    expect((await admin.post(path, { ...again, first_name: 'X', work_email: 'third@example.com' })).status).toBe(409);
    expect((await admin.post(path, again)).status).toBe(303);
  }
  const other = { first_name, last_name, company: 'Army', work_email: 'other@example.com' };
  const made = await admin.submit(path, other);
  expect(made.status).toBe(303);
  const edit = made.location!.replace(/\?.*/, '/edit');
  const asked = await admin.submit(edit, { work_email });
  expect([asked.status, textOf(asked)]).toEqual([409, expect.stringContaining('You may have this contact already')]);
  expect(asked.body).toContain(`/app/contacts/${id}"`);
  expect((await admin.post(edit, filledFields(asked.body, edit))).status).toBe(303);
  expect((await admin.submit(edit, { work_email: work_email.toUpperCase() })).status).toBe(409);
  const company = { company_name: 'NAVY', type: 'customer' };
  expectPage(await admin.submit('/app/companies/new', company), 409, 'You may have this company already');
  expect((await admin.submit('/app/companies/new', { ...company, company_name: 'Navy 2' })).status).toBe(303);
  const legal = await admin.submit('/app/companies/new', { ...company, company_name: 'Navy Ltd.' });
  expectPage(legal, 409, /You may have this company already: Navy\b/);
  const near = { work_email: 'near@example.com', company: 'Navy Inc' };
  expectPage(await admin.submit(path, near), 409, /“Navy Inc” will be a new company\. You have: Navy\b/);
  expect((await admin.submit(path, { ...near, company: 'navy' })).status).toBe(303);
  await make(customer, '/company', { company_name: "O'Neil & S.X.X. Ltd", type: 'customer' });
  const marked = { work_email: 'marked@example.com', company: "O'Neil S.X.X" };
  expectPage(await admin.submit(path, marked), 409, /will be a new company\. You have: O'Neil & S\.X\.X\. Ltd\b/);
});

test('what matches is exported as Excel or CSV', async () => {
  await makeContacts(2, { location_country: 'DE', last_name: 'Müller' });
  await makeContacts(1);
  const csv = await admin.get('/app/contacts/export?format=csv&country=DE');
  const nameOf = ({ headers }: typeof csv) => decodeURIComponent(String(headers['content-disposition']));
  const day = new Date().toISOString().slice(0, 10);
  expect([csv.status, nameOf(csv)]).toEqual([200, `attachment; filename="Contacts ${day}.csv"`]);
  const { body: list } = await customer.post('/list-contact', { name: 'Gäste "A/B"' });
  const listed = await admin.get(`/app/contacts/export?list=${list.id}`);
  expect(nameOf(listed)).toBe(`attachment; filename*=UTF-8''Gäste A B ${day}.xlsx`);
  const [head, ...rows] = csv.body.trimEnd().split(/\r?\n/);
  expect([head!.slice(0, 11), rows.length]).toEqual(['\ufeffFirst name', 2]);
  expect(rows.join()).toMatch(/Müller.*,,/);
  expect(rows.join()).not.toMatch(/\\N|\[\]/);
  expect((await admin.get('/app/companies/export?format=xlsx')).headers['content-type']).toContain('spreadsheetml');
});

test('a company is created, changed and deleted by a member; its contacts stay', async () => {
  const member = await visitorOf(app.fastify, customer.id, 'member');
  const made = await member.submit('/app/companies/new', { company_name: 'Navy', type: 'customer' });
  const path = made.location!.split('?')[0]!;
  expect((await member.get(path)).body).toContain('href="/app/contacts/new?company&#61;Navy"');
  expect((await member.fieldsOf('/app/contacts/new?company=Navy'))['company']).toBe('Navy');
  const id = path.split('/').at(-1)!;
  const [contact] = await makeContacts(1, { company: { id } });
  const domain = 'https://www.Navy.example/about';
  await member.submit(`${path}/edit`, { company_name: 'US Navy', location_country: 'US', domain });
  expect(textOf(await member.get(path))).not.toContain('seats');
  await customer.call('PUT', '/fields/company/seats', { type: 'number' });
  expect(textOf(await member.get(path))).toMatch(/ empty fields .* seats /);
  expect((await customer.get(`/company/${id}`)).body).toMatchObject({
    company_name: 'US Navy',
    location_country: 'US',
    domain: 'navy.example',
  });
  expect(textOf(await member.get('/app/companies'))).toMatch(
    / Place Contacts Open deals Last activity .*US Navy .* United States 1 this page /,
  );
  expect(textOf(await member.get(path))).toMatch(/US Navy.*navy\.example.*United States.*Ada Lovelace 0/);
  expect(textOf(await member.get(`${path}/delete`))).toContain(
    '1 contact and 0 opportunities stay, without a company.',
  );
  expect((await member.submit(`${path}/delete`)).status).toBe(303);
  expect((await customer.get(`/contacts/${contact}`)).body.company.id).toBe(null);
});

test('chosen companies get a type together, and their contacts are shown in one table', async () => {
  await makeContacts(2, { company: { name: 'Navy' } });
  await makeContacts(1, { company: { name: 'Army', industry: 'Defence' } });
  await makeContacts(1, { company: { name: 'Mint' } });
  const [, ...chosen] = idsIn((await admin.get('/app/companies')).body, 'companies').map((id) => `id=${id}`);
  const { location } = await admin.get(`/app/companies/chosen?do=people&${chosen.join('&')}`);
  expectPage(await admin.get(location!), 200, /Company: Army, Navy × .* 3 contacts /);
  await admin.submit(`/app/companies/chosen?do=edit&${chosen.join('&')}`, { type: 'partner' });
  expectPage(await admin.get('/app/companies?type=partner'), 200, ' 2 companies ');
});

test('a search that finds nothing leads to the same text in the fields at which it does not look', async () => {
  await makeContacts(1, { job_title: 'Engineer', location_country: 'DE' });
  const { body } = await admin.get('/app/contacts?search=engineer&country=DE');
  expect(body).toContain('No contact matches');
  const [, title] = /Look for[^]*href="([^"]+)">Job title</.exec(body)!;
  expectPage(await admin.get(title!.replaceAll('&#38;', '&').replaceAll('&#61;', '=')), 200, /Germany.* 1 contact /);
});

test('a group of fields is edited alone, and the other fields stay', async () => {
  const [id] = await makeContacts(1, { job_title: 'Clerk' });
  const path = `/app/contacts/${id}/edit?group=Work`;
  const { body } = await admin.get(path);
  expect([body.includes('name="job_title"'), body.includes('name="first_name"')]).toEqual([true, false]);
  expect((await admin.submit(path, { job_title: 'Countess' }, path)).status).toBe(303);
  expect((await customer.get(`/contacts/${id}`)).body).toMatchObject({ first_name: 'Ada', job_title: 'Countess' });
});

test('the form of a contact folds the fields that are seldom used, and opens them if one is wrong or was changed', async () => {
  const foldOf = (body: string) =>
    /<details\s*(open)?\s*>([\s\S]*?)<\/details>/.exec(body.split('class="buttons')[0]!)!;
  const path = '/app/contacts/new';
  const [before, open, inside] = [...foldOf((await admin.get(path)).body)];
  expect(open).toBeUndefined();
  const named = [...inside!.matchAll(/ name="(\w+)"/g)].map(([, name]) => name);
  expect(named).toEqual(
    expect.arrayContaining(['middle_name', 'location_country', 'gender', 'birth_year', 'external_id']),
  );
  expect(named).not.toContain('work_email');
  expect(before).toContain('More fields');
  for (const [field, isOpen] of [
    [{ birth_year: '1' }, true],
    [{ gender: 'f' }, true],
    [{}, false],
  ] as const)
    expect(foldOf((await admin.submit(path, { work_email: 'none', ...field })).body)[1]).toBe(
      isOpen ? 'open' : undefined,
    );
  const [id] = await makeContacts(1);
  expect((await admin.get(`/app/contacts/${id}/edit?group=Place`)).body).not.toContain('More fields');
});

test('the page of a contact names the lists it is in, by hand and by rules', async () => {
  const [id] = await makeContacts(1, { job_title: 'Engineer' });
  const hand = await makeList(app.fastify, customer);
  const rules = [{ field: 'job_title', operator: 'contains', value: 'engin' }];
  await customer.post('/list-contact', { name: 'By rule', rules });
  const back = encodeURIComponent(`/app/contacts/${id}?done=listed`);
  await admin.submit(`/app/contacts/${id}`, { list_id: hand }, `/app/contacts/lists?back=${back}`);
  expect((await customer.get(`/contacts/${id}`)).body.list_ids).toEqual([hand]);
  const page = textOf(await admin.get(`/app/contacts/${id}`));
  expect(page).toMatch(/By rule by its rules/);
  expect(page).toMatch(/List-[0-9a-f]+ Take out/);
});
