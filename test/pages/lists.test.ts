import { expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { stagesOf, opportunityBody, productBody, make } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, filledFields, textOf, visitorOf } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const contact = (more: object = {}) =>
  make(customer, '/contacts', {
    first_name: 'Ada',
    last_name: 'Lovelace',
    work_email: 'ada@example.com',
    phone_numbers: [],
    ...more,
  });

/** Fields of the form of a list with two rules, joined by OR. */
const rules = {
  join: ['AND', 'OR', 'AND'],
  field: ['job_title', 'location_country', ''],
  operator: ['contains', 'in', 'equals'],
  value: ['engineer', 'DE, AT', ''],
};

test('a list is made of rules in words, with the number of matches before it is saved', async () => {
  await contact({ job_title: 'Engineer' });
  await contact({ location_country: 'AT' });
  await contact();
  const preview = await admin.submit('/app/lists/new', { name: '', ...rules, do: 'preview' });
  expectPage(preview, 200, '2 contacts match these rules now. Ada Lovelace Ada Lovelace · Engineer');
  await customer.call('PUT', '/fields/contacts/seats', { type: 'number', label: 'Places' });
  expect((await admin.get('/app/lists/new')).body).toMatch(/value="custom_fields\.seats">Places/);
  const rowsAfter = async (what: string) =>
    (await admin.submit('/app/lists/new', { ...rules, do: what })).body.split('name="field"').length - 1;
  expect([await rowsAfter('row add'), await rowsAfter('row out 0')]).toEqual([4, 2]);
  expect((await customer.post('/list-contact/list', {})).body).toEqual([]);
  const wrong = await admin.submit('/app/lists/new', {
    name: 'X',
    ...rules,
    operator: ['greater_than', 'x', ''],
    do: 'save',
  });
  expect(wrong.status).toBe(400);
  const lost = await admin.submit('/app/lists/new', { name: 'X', field: '', value: 'CEO' });
  expectPage(lost, 400, 'Choose a field for “CEO”');
  const saved = await admin.submit('/app/lists/new', { name: 'Engineers', ...rules, do: 'save' });
  const page = textOf(await admin.get((await admin.get(saved.location!)).location!));
  expect(page).toContain('It is created.');
  expect(page).toMatch(/Job title contains engineer or Country is one of Germany, Austria/);
  expect(page).toContain('2 contacts');
});

test('the page of a list is the table of contacts, in which its contacts are searched, chosen and taken out', async () => {
  const { body: list } = await customer.post('/list-contact', { name: 'Guests' });
  const open = async (more = '') => admin.get((await admin.get(`/app/lists/${list.id}${more}`)).location!);
  expectPage(await open(), 200, /Guests .* Nobody yet/);
  const [ada] = await Promise.all([contact({ list_ids: [list.id] }), contact({ list_ids: [list.id] }), contact()]);
  const page = await open();
  expectPage(page, 200, /Guests .* 2 contacts .* Add to a list Take out Assign/);
  expect(page.body).toMatch(/aria-current="page">Lists</);
  expectPage(await open('?search=nobody'), 200, /Guests .* No contact matches/);
  const number = async () => (await customer.get(`/list-contact/${list.id}`)).body.contacts_count;
  const question = `/app/contacts/chosen?do=out&list=${list.id}&id=${ada}`;
  const asked = (await admin.get(question)).body;
  expect(asked).not.toContain('rules');
  expect(asked).toMatch(/aria-current="page">Lists</);
  const loud = list.id.toUpperCase();
  expect((await admin.get(`/app/contacts?list=${loud}`)).body).not.toContain(loud);
  const { location: out } = await admin.submit(question);
  expectPage(await admin.get(out!), 200, '1 contact is taken out of the list. Undo');
  expect([await number(), (await customer.get(`/contacts/${ada}`)).status]).toEqual([1, 200]);
  const back = new URLSearchParams({ back: `/app/contacts?list=${list.id}&done=undone` }).toString();
  const undone = await admin.submit(out!, {}, `/app/contacts/lists?${back}`);
  expectPage(await admin.get(undone.location!), 200, /It is taken back\. .* 2 contacts/);
});

test('contacts that were added to a list are taken out by an undo, also if one of them was deleted since', async () => {
  const { body: list } = await customer.post('/list-contact', { name: 'Guests' });
  const [ada, grace] = [await contact(), await contact()];
  const { location } = await admin.submit(`/app/contacts/chosen?do=list&id=${ada}&id=${grace}`, { list_id: list.id });
  const { location: page } = await admin.get(location!);
  const back = new URLSearchParams({ back: `/app/contacts?list=${list.id}&done=undone` }).toString();
  const form = await admin.fieldsOf(page!, `/app/contacts/lists?${back}`);
  await customer.delete(`/contacts/${ada}`);
  expect((await admin.post('/app/contacts/lists', { ...form, id: [ada, grace] })).status).toBe(303);
  expect((await customer.get(`/list-contact/${list.id}`)).body.contacts_count).toBe(0);
});

test('a form that takes contacts out of a list does it once, also if they were put back since', async () => {
  const { body: list } = await customer.post('/list-contact', { name: 'Guests' });
  const ada = await contact({ list_ids: [list.id] });
  const out = async (chosen: string) => admin.fieldsOf(`/app/contacts/chosen?do=out&list=${list.id}&${chosen}`);
  const [one, all] = [await out(`id=${ada}`), await out('all=1')];
  for (const form of [one, all]) {
    await customer.patch(`/contacts/${ada}`, { list_ids: [list.id] });
    const sent = [await admin.post('/app/contacts/chosen', form), await admin.post('/app/contacts/chosen', form)];
    expect(sent.map(({ location }) => location)).toEqual([
      expect.stringContaining('done=out&n=1'),
      expect.stringMatching(/list.*done=sent/),
    ]);
  }
  await customer.patch(`/contacts/${ada}`, { list_ids: [list.id] });
  await admin.post('/app/contacts/chosen', one);
  expect((await customer.get(`/contacts/${ada}`)).body.list_ids).toEqual([list.id]);
});

test('a list that is renamed keeps its rules, description and members as they are, line breaks too', async () => {
  await contact({ job_title: 'Head\nof Sales ', location_locality: 'Bath' });
  const rules = [
    { field: 'job_title', operator: 'equals', value: 'Head\r\nof Sales ' },
    { field: 'location_locality', operator: 'in', value: 'Bath,York' },
    { field: 'created_at', operator: 'greater_or_equal', value: '2020-01-01T00:00:00.000Z' },
    { field: 'created_at', operator: 'less_than', value: '2099-01-01T12:30:00+02:00' },
    { field: 'location_country', operator: 'equals', value: '' },
  ];
  const { body: list } = await customer.post('/list-contact', { name: 'Old', description: ' a\r\nb ', rules });
  const stored = async () => (await customer.get(`/list-contact/${list.id}`)).body;
  const before = await stored();
  expect(before.contacts_count).toBe(1);
  const path = `/app/lists/${list.id}/edit`;
  const { body } = await admin.get(path);
  // As a browser sends it: line breaks as CR LF, those in an input dropped.
  const controls = body.matchAll(
    /<(input|textarea)\s[^>]*name="value"(?:[^>]*value="([^"]*)")?[^>]*>(?:\n?([^<]*)<\/textarea>)?/g,
  );
  const value = [...controls].map(([, tag, given = '', area = '']) =>
    tag === 'input' ? given.replaceAll(/[\r\n]/g, '') : area.replaceAll(/\r\n?|\n/g, '\r\n'),
  );
  expect(value.slice(2, 4)).toEqual(['2020-01-01', '2099-01-01T12:30:00+02:00']);
  const sent = {
    ...filledFields(body, path),
    name: 'New',
    description: ' a\r\nb ',
    join: value.map(() => 'AND'),
    field: [...rules.map(({ field }) => field), ''],
    operator: [...rules.map(({ operator }) => operator), 'equals'],
    value,
    do: 'save',
  };
  const saved = await admin.post(path, sent);
  expect([saved.status, textOf(saved)]).toEqual([303, '']);
  expect(await stored()).toEqual({ ...before, name: 'New', updated_at: expect.anything() });
});

test('a list takes the name of another list only after a question', async () => {
  await customer.post('/list-contact', { name: 'Guests' });
  const path = '/app/lists/new';
  const asked = await admin.submit(path, { name: 'guests', do: 'save' });
  expectPage(asked, 409, /There is a list of this name already: Guests ?\. Change the name, .* Save it all the same/);
  const saved = await admin.post(path, { ...filledFields(asked.body, path), name: 'guests' });
  expect(saved.status).toBe(303);
  const edit = `${saved.location!.split('?')[0]}/edit`;
  expect((await admin.submit(edit, { description: 'Again', do: 'save' })).status).toBe(303);
  expect((await admin.submit(edit, { name: 'GUESTS', do: 'save' })).status).toBe(409);
});

test('a list is emptied by taking out its rules only after a question', async () => {
  await contact();
  const rules = [{ field: 'last_name', operator: 'is_not_empty', value: '' }];
  const { body: list } = await customer.post('/list-contact', { name: 'All', rules });
  const path = `/app/lists/${list.id}/edit`;
  const asked = await admin.submit(path, { field: '', do: 'save' });
  expectPage(asked, 409, 'only contacts that were put in by hand stay');
  expect((await customer.get(`/list-contact/${list.id}`)).body.contacts_count).toBe(1);
  expect((await admin.post(path, { ...filledFields(asked.body, path), field: '' })).status).toBe(303);
  expect((await customer.get(`/list-contact/${list.id}`)).body.rules).toEqual([]);
});

test('the value of a rule that is no status is shown as it is, also if it is the name of a member of all objects', async () => {
  const rule = { field: 'verification_status', operator: 'equals', value: 'constructor', logic_operator: 'AND' };
  await customer.post('/list-contact', { name: 'Odd', rules: [rule] });
  expect(textOf(await admin.get('/app/lists'))).toContain('E-mail status is constructor');
});

test('the values of rules are written as people write them: users, days, countries and statuses', async () => {
  const { user } = admin;
  for (const [key, type] of Object.entries({ vip: 'boolean', since: 'date', seats: 'number' }))
    await customer.call('PUT', `/fields/contacts/${key}`, { type, label: `Own ${key}` });
  const save = (field: string, operator: string, value: string) =>
    admin.submit('/app/lists/new', {
      name: `${field} ${operator} ${value}`,
      join: ['AND'],
      field: [field],
      operator: [operator],
      value: [value],
      do: 'save',
    });
  for (const [field, operator, value, read] of [
    ['assigned_to', 'equals', 'grace hopper', user.userId],
    ['assigned_to', 'in', user.email.toUpperCase(), user.userId],
    ['created_at', 'greater_or_equal', '25.11.2026', '2026-11-25T00:00:00.000Z'],
    ['created_at', 'greater_than', '25 Nov 2026', '2026-11-25T23:59:59.999Z'],
    ['created_at', 'less_or_equal', '2026-11-25', '2026-11-25T23:59:59.999Z'],
    ['location_country', 'equals', 'Deutschland', 'DE'],
    ['location_country', 'in', 'Alemania, AT, france', 'DE, AT, FR'],
    ['location_country', 'contains', 'D', 'D'],
    ['verification_status', 'equals', 'Accepts all', 'accept_all'],
    ['score', 'greater_than', ' 50 ', '50'],
    ['custom_fields.vip', 'equals', 'Yes', 'true'],
    ['custom_fields.since', 'greater_than', '25 Nov 2026', '2026-11-25'],
    ['custom_fields.since', 'starts_with', '2026', '2026'],
    ['custom_fields.seats', 'in', '7.50, 12', '7.5, 12'],
    ['custom_fields.other', 'equals', 'Yes', 'Yes'],
  ] as const) {
    const saved = await save(field, operator, value);
    expect([field, value, saved.status, textOf(saved)]).toEqual([field, value, 303, '']);
    const { rules } = (await customer.get(`/list-contact/${saved.location!.split(/[/?]/)[3]}`)).body;
    expect(rules).toEqual([{ field, operator, value: read, logic_operator: 'AND' }]);
  }
  const saved = await save('created_at', 'equals', '25.11.2026');
  expect(textOf(await admin.get((await admin.get(saved.location!)).location!))).toContain(
    'Created is on or after 2026-11-25 and Created is on or before 2026-11-25',
  );
  const own = (await save('custom_fields.vip', 'equals', 'no')).location!;
  expect(textOf(await admin.get((await admin.get(own)).location!))).toContain('Own vip is no');
  for (const [field, operator, value, message] of [
    ['custom_fields.vip', 'equals', 'maybe', '“maybe” is not one of these: yes, no'],
    ['assigned_to', 'equals', 'Nobody', '“Nobody” is not one of these: '],
    ['created_at', 'greater_than', '03/04/2026', '“03/04/2026” is not a clear date'],
    ['created_at', 'greater_than', '', 'Give a value, or choose “is empty”'],
    ['created_at', 'not_equals', '2026-11-25', 'Choose “is on or after” or “is on or before” for a date'],
    ['location_country', 'equals', 'Germoney', '“Germoney” is not a country'],
    ['verification_status', 'in', 'good', '“good” is not one of these: not verified, verified'],
    ['score', 'equals', 'high', '“high” is not a whole number'],
  ] as const) {
    const refused = await save(field, operator, value);
    expectPage(refused, 400, message);
    expect(refused.body).toMatch(new RegExp(`value="${value}"`));
    expect(refused.body).toMatch(/aria-label="Rule 1: values?"[^>]*aria-invalid="true"[\s\S]*id="rules-0-fault"/);
  }
  const [tooLong, day] = ['y'.repeat(300), '2026-11-25'];
  const rows = { field: ['created_at', 'first_name', 'last_name'], value: [day, tooLong, 'fine'] };
  const many = { name: 'L', ...rows, join: Array(3).fill('AND'), operator: Array(3).fill('equals'), do: 'save' };
  const { body } = await admin.submit('/app/lists/new', many);
  expect(body.match(/name="value"[^>]*aria-invalid[^>]*value="(\w)/)?.[1]).toBe('y');
});

test('the table of lists shows the first rules of a list, and how many more it has', async () => {
  const rules = ['a', 'b', 'c', 'd'].map((value) => ({ field: 'job_title', operator: 'contains', value }));
  await customer.post('/list-contact', { name: 'L', rules });
  expect(textOf(await admin.get('/app/lists'))).toMatch(/contains c and 1 more /);
});

test('a rule takes several values: ticked where the field has few, typed where it has many or any', async () => {
  const declare = (key: string, choices: string[]) =>
    customer.call('PUT', `/fields/contacts/${key}`, { type: 'choice', label: key, choices });
  await declare('region', ['North, South', 'North', 'South', 'East']);
  await declare('branch', ['North, South', ...Array.from({ length: 12 }, (_, i) => `b${i}`)]);
  const rule = { name: 'L', join: 'AND', operator: 'in', value: '' };
  const send = (field: string, more: object) => admin.submit('/app/lists/new', { ...rule, field, ...more });
  const ticks = await send('custom_fields.region', { 'value-0': ['South', 'East'], do: 'row add' });
  const boxes = [...ticks.body.matchAll(/type="checkbox" name="value-0" value="([^"]+)" +(checked)?/g)];
  // The API would read "North, South" as two values.
  expect(boxes.map(([, word, isTicked]) => `${word} ${isTicked}`)).toEqual([
    'North undefined',
    'South checked',
    'East checked',
  ]);
  expect(textOf(ticks)).toContain('A choice with a comma or semicolon fits only “is” and “is not”.');
  for (const [field, more, value] of [
    ['custom_fields.region', { 'value-0': ['South', 'East'] }, 'South, East'],
    ['custom_fields.branch', { value: 'b3; B11' }, 'b3, b11'],
    ['location_country', { value: 'Germany, Spanien\r\nAT, ' }, 'DE, ES, AT'],
    ['job_title', { value: 'CEO; CTO\r\nCFO' }, 'CEO, CTO, CFO'],
    ['job_title', { value: 'VP; EMEA, CTO' }, 'VP; EMEA, CTO'],
  ] as const) {
    const { body } = await send(field, { ...more, do: 'row add' });
    expect([field, body.includes('Separate several with commas.')]).toEqual([field, 'value' in more]);
    const saved = await send(field, { ...more, do: 'save', name: value });
    const { body: list } = await customer.get(`/list-contact/${saved.location!.split(/[/?]/)[3]}`);
    expect(list.rules).toMatchObject([{ field, operator: 'in', value }]);
  }
  const { body } = await send('custom_fields.branch', { value: 'b1', do: 'row add' });
  expectPage(
    await send('custom_fields.branch', { value: 'b', do: 'save' }),
    400,
    /one of these: North, South, b0.* b10 …/,
  );
  expect([...body.matchAll(/<option value="(?:b1|North, South)">/g)].map(String)).toEqual(['<option value="b1">']);
  const wrong = await send('location_country', { value: 'Spain, Germoney', do: 'save' });
  expectPage(wrong, 400, '“Germoney” is not a country');
  expect(wrong.body.match(/aria-invalid/g)).toHaveLength(1);
  const none = await send('custom_fields.region', { do: 'save' });
  expect(none.body.match(/<(\w+)[^>]*aria-invalid/g)).toEqual([expect.stringMatching(/^<fieldset/)]);
});

test('a rule with several values that was not edited stays as it is, and so do its values beside a further one', async () => {
  const choices = ['gold', 'A; B', 'Red, dark', 'silver'];
  await customer.call('PUT', '/fields/contacts/kind', { type: 'choice', label: 'Kind', choices });
  const of = async (value: string, more: object = {}) => {
    const rule = { field: 'custom_fields.kind', operator: 'in', value };
    const { id } = (await customer.post('/list-contact', { name: value, rules: [rule] })).body;
    const path = `/app/lists/${id}/edit`;
    const { body } = await admin.get(path);
    const ticked = [...body.matchAll(/name="value-0" value="([^"]+)" +checked/g)].map(([, word]) => word!);
    const sent = { ...(await admin.fieldsOf(path)), name: `${value} 2`, 'value-0': ticked, ...more };
    expect([value, (await admin.post(path, sent)).status]).toEqual([value, 303]);
    return (await customer.get(`/list-contact/${id}`)).body.rules[0].value;
  };
  for (const value of ['silver, gold', 'A; B, gold', 'Red, dark, gold', 'bronze, gold'])
    expect(await of(value)).toBe(value);
  expect(await of('bronze, silver', { 'value-0': ['silver', 'bronze', 'gold'] })).toBe('silver, bronze, gold');
});

test('a rule whose field is chosen offers the comparisons and values that fit the field, without scripts too', async () => {
  await customer.call('PUT', '/fields/contacts/vip', { type: 'boolean', label: 'VIP' });
  const offered = async (field: string) => {
    const rule = { join: 'AND', field, operator: 'equals', value: '' };
    const { body } = await admin.submit('/app/lists/new', { ...rule, do: 'row field 0' });
    expect(body).toMatch(field === 'job_title' ? /value="contains" selected/ : /value="equals" selected/);
    const [, operator] = /<select name="operator"[^>]*>([\s\S]*?)<\/select>/.exec(body)!;
    const [, value] = /<(?:select|input)\s[^>]*name="value"[^>]*>([^§]*?)<\/td>/.exec(body)!;
    return `${textOf({ body: operator! })}: ${textOf({ body: value! })}`;
  };
  expect(await offered('custom_fields.vip')).toBe(
    'is is not is one of is none of is empty is not empty: Choose a value yes no',
  );
  expect(await offered('score')).toMatch(/^is is not is one of .* is more than .*: $/);
  expect(await offered('job_title')).toMatch(/^contains .*: $/);
  expect(await offered('location_country')).toContain(' Germany ');
  const { body } = await admin.submit('/app/lists/new', { field: 'created_at', do: 'row field 0' });
  expect(body).toMatch(/<input type="date" name="value"/);
  const forged = await admin.submit('/app/lists/new', { field: 'score', operator: 'constructor', do: 'row add' });
  expect(forged.body).not.toContain('native code');
});

test('opportunities stand in a column for each stage, with its total and its day, and are moved by a form', async () => {
  const stages = await stagesOf(customer);
  expect(textOf(await admin.get('/app/opportunities'))).toContain('No opportunities yet. Write down');
  const close_date = '2099-12-31T00:00:00.000Z';
  const company_id = await make(customer, '/company', { company_name: 'Navy', type: 'customer' });
  const body = await opportunityBody(customer, { name: 'Two engines', close_date, company_id });
  const id = await make(customer, '/opportunities', body);
  expect(textOf(await admin.get('/app/opportunities'))).toMatch(/Lead 1 US\$0 US\$0 at 10 % Two engines Navy/);
  const moved = await admin.submit(`/app/opportunities/${id}/move`, { stage_id: stages[4]!.id });
  expect(moved.status).toBe(303);
  const today = new Date().toLocaleDateString('en-GB', { dateStyle: 'medium', timeZone: 'UTC' });
  expect(textOf(await admin.get('/app/opportunities'))).toMatch(new RegExp(`Won 1 US\\$0 Two engines .* ${today}`));
  expect(textOf(await admin.get(`/app/opportunities/${id}`))).toContain(` · won ${today} · `);
  const { body: form } = await admin.get(`/app/opportunities/${id}/edit`);
  expect(form.indexOf('id="close_date"')).toBeLessThan(form.indexOf('id="estimated_closing_date"'));
  const won = (await customer.get(`/opportunities/${id}`)).body;
  expect([won.stage_id, won.close_date <= new Date().toISOString()]).toEqual([stages[4]!.id, true]);
});

test('an opportunity that somebody else has moved meanwhile stays where it is, and a move can be undone', async () => {
  const stages = await stagesOf(customer);
  const id = await make(customer, '/opportunities', await opportunityBody(customer, { stage_id: stages[0]!.id }));
  const path = `/app/opportunities/${id}/move`;
  const fields = await admin.fieldsOf(path);
  const moved = await admin.post(path, { ...fields, stage_id: stages[1]!.id });
  const board = textOf(await admin.get(moved.location!));
  expect(board).toContain(`It is moved to ${stages[1]!.name}. Undo`);
  expect(board).not.toContain('Save this view');
  const again = await admin.post(path, { ...fields, stage_id: stages[1]!.id });
  expect(textOf(await admin.get(again.location!))).not.toContain('It is moved');
  const refused = await admin.post(path, { ...fields, stage_id: stages[2]!.id });
  expect(textOf(await admin.get(refused.location!))).toContain(`moved it to ${stages[1]!.name} meanwhile`);
  const { location } = await admin.post(path, { ...fields, stage_id: stages[2]!.id, pipeline: '' });
  expect(textOf(await admin.get(location!))).toContain(`moved it to ${stages[1]!.name} meanwhile`);
  expect((await customer.get(`/opportunities/${id}`)).body.stage_id).toBe(stages[1]!.id);
});

test('the board sums each stage and all that is open, also by likelihood, for everybody and for one person', async () => {
  const stages = await stagesOf(customer);
  const product = await make(customer, '/products', productBody());
  const add = async (stage: number, price: number, more: object = {}) => {
    const products = [{ id: product, price, quantity: 1 }];
    const body = await opportunityBody(customer, { stage_id: stages[stage]!.id, products, ...more });
    await make(customer, '/opportunities', body);
  };
  await add(1, 1000);
  await add(1, 500, { user_id_assigned: admin.user.userId });
  await add(4, 9000);
  const all = textOf(await admin.get('/app/opportunities'));
  expect(all).toContain('Open: US$1,500 · US$375 by likelihood');
  expect(all).toContain('Qualified 2 US$1,500 US$375 at 25 %');
  expect(all).toContain('Won 1 US$9,000');
  const mine = textOf(await admin.get(`/app/opportunities?owner=${admin.user.userId}`));
  expect(mine).toContain('Qualified 1 US$500 US$125 at 25 %');
  expect(mine).toContain('Won 0 US$0');
});

test('an opportunity is created and changed by a form: company and products by name, contacts by e-mail', async () => {
  const id = await contact();
  await make(customer, '/company', { company_name: 'Analytical Engines', type: 'customer' });
  const [engine, manual, service] = await Promise.all(
    ['Engine', 'Manual', 'Service'].map((name) => make(customer, '/products', { name, price: 3, unit: 'piece' })),
  );
  const path = '/app/opportunities/new';
  const wrong = await admin.submit(path, { name: 'Two', company: 'N'.repeat(256), contacts: 'who@example.com' });
  expectPage(wrong, 400, /must have 1 to 255 characters.*There is no contact “who@/);
  const sent = {
    name: 'Two engines',
    company: 'analytical engines',
    contacts: 'ADA@example.com,',
    product: ['engine', 'Manual', ''],
    price: ['12,5', '', ''],
    quantity: ['2', '1', ''],
  };
  const saved = await admin.submit(path, sent);
  expect([saved.status, textOf(saved)]).toEqual([303, '']);
  const location = saved.location!.split('?')[0]!;
  expect(textOf(await admin.get(location))).toMatch(/Two engines.*28\.00.*Analytical Engines.*Ada Lovelace/);
  const opportunity = location.split('/').at(-1)!;
  const shown = async () => (await customer.get(`/opportunities/${opportunity}`)).body;
  const before = await shown();
  expect(textOf(await admin.get(`${location}/edit`))).toMatch(/Product Price Quantity Engine/);
  const edit = {
    ...(await admin.fieldsOf(`${location}/edit`)),
    name: 'Three',
    product: [engine!, manual!, service!],
    price: ['12.5', '3', '1'],
    quantity: ['3', '', '4'],
  };
  expect((await admin.post(`${location}/edit`, edit)).status).toBe(303);
  expect(await shown()).toMatchObject({
    ...before,
    name: 'Three',
    price: 41.5,
    details: [{ name: 'Engine', quantity: 3 }, { name: 'Service' }],
    updated_at: expect.anything(),
  });
  const written = await shown();
  const unchanged = { ...(await admin.fieldsOf(`${location}/edit`)), product: [engine!, service!] };
  const lines = { price: ['12.5', '1'], quantity: ['3', '4'] };
  expect((await admin.post(`${location}/edit`, { ...unchanged, ...lines })).status).toBe(303);
  expect(await shown()).toEqual(written);
  const stranger = await visitorOf(app.fastify, (await app.customer()).id);
  const token = await stranger.fieldsOf(path);
  expect((await stranger.post(path, { ...token, name: 'X', contact: id })).status).toBe(404);
});

test('an opportunity has an amount without a product, a new company, and a contact by name, asked about if two have it', async () => {
  const [id] = await Promise.all([contact(), contact({ work_email: 'other@example.com' })]);
  const deal = { name: 'Deal', amount: '40.000,00', company: 'New Ltd', contacts: 'ada lovelace' };
  const asked = await admin.submit('/app/opportunities/new', deal);
  expectPage(asked, 400, 'Tick who is meant by “ada lovelace”');
  expect(asked.body.match(/name="contact" value/g)).toHaveLength(2);
  expect(textOf(asked)).toContain('Ada Lovelace, other@example.com');
  const other = await admin.submit('/app/opportunities/new', { ...deal, contact: id, amount: '£ 40 000' });
  expect([other.status, textOf(other)]).toEqual([400, expect.stringMatching(/“£ 40 000” is not in USD/)]);
  const made = await admin.submit('/app/opportunities/new', { ...deal, contact: id, amount: '$ 40.000,00' });
  const path = made.location!.split('?')[0]!;
  const stored = async () => (await customer.get(path.replace('/app', ''))).body;
  const amount = (price: number) => [{ name: 'Amount', price, quantity: 1 }];
  expect(await stored()).toMatchObject({ price: 40_000, contacts_ids: [id], details: amount(40_000) });
  expect(textOf(await admin.get(path))).toContain('New Ltd');
  await admin.submit(`${path}/edit`, { amount: '50000' });
  await admin.submit('/app/opportunities/new', { name: 'Other', amount: '1' });
  expect(await stored()).toMatchObject({ price: 50_000, details: amount(50_000) });
  expect((await customer.post('/products/list', {})).body).toMatchObject([
    { name: 'Amount', active: false, opportunities_count: 2 },
  ]);
  const shown = textOf(await admin.get(path));
  expect(shown).toContain('Value: 40,000 → 50,000');
  expect(shown).not.toMatch(/1 × |Products: /);
  const colleague = await visitorOf(app.fastify, customer.id);
  for (const page of ['/app', '/app/products', '/app/products?show=all', '/app/opportunities/new'])
    expect((await colleague.get(page)).body).not.toMatch(/>Amount<\/a>|value="Amount"/);
  await admin.submit(`${path}/edit`, { amount: '' });
  expect(await stored()).toMatchObject({ price: 0, contacts_ids: [id], details: [] });
});

test('an amount with too many decimals is told at its field, and that of a product below the products', async () => {
  const faultsOf = async (given: object) => {
    const { body } = await admin.submit('/app/opportunities/new', { name: 'Deal', ...given });
    return [...body.matchAll(/id="(\w+)-fault">([^<]*)/g)].map(([, ...one]) => one.join(': '));
  };
  await make(customer, '/products', productBody({ name: 'Chair' }));
  const product = { product: 'Chair', price: '2.00001', quantity: '1' };
  expect(await faultsOf({ amount: '1.23456' })).toEqual(['amount: “1.23456” must not have more than 4 decimals.']);
  expect(await faultsOf(product)).toEqual(['products: “2.00001” must not have more than 4 decimals.']);
});

test('a stage whose id is sent in upper case sets the day of closing, too', async () => {
  const [, , , , won] = await stagesOf(customer);
  const days = { estimated_closing_date: '2099-12-31', close_date: '2099-12-31' };
  const stage_id = won!.id.toUpperCase();
  const made = await admin.submit('/app/opportunities/new', { name: 'Deal', ...days, stage_id });
  const { close_date } = (await customer.get(made.location!.split('?')[0]!.replace('/app', ''))).body;
  expect(close_date <= new Date().toISOString()).toBe(true);
});

test('a product that is listed in another currency needs a price in that of the pipeline', async () => {
  await make(customer, '/products', productBody({ name: 'Import', currency: 'EUR' }));
  const deal = { name: 'Deal', product: 'Import', quantity: '1' };
  expectPage(await admin.submit('/app/opportunities/new', deal), 400, 'Give a price for “Import” in USD');
  expect((await admin.submit('/app/opportunities/new', { ...deal, price: '22' })).status).toBe(303);
});

test('an opportunity keeps the products and contacts that its form does not show', async () => {
  const many = Array.from({ length: 102 }, (_, i) => i);
  const made = async (path: string, items: object[]) => {
    const { body } = await customer.post(`${path}/batch/create`, { items });
    return (body.data.results as { id: string }[]).map(({ id }) => id);
  };
  const contacts = await made(
    '/contacts',
    many.map((i) => ({ first_name: 'A', last_name: 'B', work_email: `a${i}@x.example`, phone_numbers: [] })),
  );
  const products = await Promise.all(
    many.map((i) => make(customer, '/products', { name: `P${i}`, price: 1, unit: 'piece' })),
  );
  const lines = products.map((product) => ({ id: product, price: 1.249, quantity: 2 }));
  const body = await opportunityBody(customer, { contacts_ids: contacts, products: lines });
  const id = await make(customer, '/opportunities', body);
  const path = `/app/opportunities/${id}/edit`;
  const shown = (await admin.get(path)).body;
  expect(shown.match(/type="hidden" name="product"/g)).toHaveLength(100);
  expect(shown.match(/name="remove"/g)).toHaveLength(100);
  const sent = {
    ...filledFields(shown, path),
    name: 'Renamed',
    remove: contacts[0]!,
    product: products.slice(0, 100),
    price: Array<string>(100).fill('1.249'),
    quantity: ['', ...Array<string>(99).fill('2')],
  };
  const saved = await admin.post(path, sent);
  expect([saved.status, textOf(saved)]).toEqual([303, '']);
  const { contacts_ids, details } = (await customer.get(`/opportunities/${id}`)).body;
  expect(contacts_ids).toEqual(contacts.slice(1));
  expect(details.map(({ product_id, price }: Record<string, unknown>) => [product_id, price])).toEqual(
    products.slice(1).map((product) => [product, 1.249]),
  );
});

test('a closing day is the day that was typed, in every time zone', async () => {
  const days = { estimated_closing_date: '2026-12-31', close_date: '2027-01-01' };
  const made = await admin.submit('/app/opportunities/new', { name: 'Deal', ...days });
  const page = await admin.get(made.location!);
  // The script of the pages changes only times, which have a T.
  const shown = [...page.body.matchAll(/<time datetime="([^"T]*)">([^<]*)</g)].map(([, ...one]) => one);
  expect(shown).toEqual([['2026-12-31', '31 Dec 2026']]);
  expect((await admin.get('/app/opportunities')).body).toContain('<time datetime="2026-12-31">31 Dec 2026<');
  expect(await admin.fieldsOf(`${made.location!.split('?')[0]}/edit`)).toMatchObject({
    estimated_closing_date: days.estimated_closing_date,
  });
  const without = await admin.submit('/app/opportunities/new', { name: 'Deal', close_date: '' });
  expectPage(without, 400, 'Choose a date.');
});
