import { describe, expect, test } from 'vitest';
import { workAtUndos } from '../jobs/working.ts';
import { startApp } from '../setup/app.ts';
import { make, opportunityBody, productBody, stagesOf } from '../setup/factories.ts';
import { adminOfEachTest, expectPage, filledFields, textOf, visitorOf, type Visitor } from './visitor.ts';

const app = await startApp();
const { customer, admin } = adminOfEachTest(app);

const stored = async (id: string) => (await customer.get(`/products/${id}`)).body as Record<string, unknown>;

describe('products', () => {
  test('are made and changed by a form that reads prices as people write them, and listed with what uses them', async () => {
    const member = await visitorOf(app.fastify, customer.id, 'member');
    expect(textOf(await member.get('/app/products'))).toContain('Nothing is offered yet');
    expect(await member.fieldsOf('/app/products/new')).toMatchObject({
      currency: 'USD',
      unit: 'piece',
      active: 'true',
    });
    const made = await member.submit('/app/products/new', { name: ' Chair ', price: '€ 1.249,90', currency: 'eur' });
    expect(made.location).toMatch(/^\/app\/products\/[^/]+\?done=created$/);
    const list = await member.get((await member.get(made.location!)).location!);
    expect(textOf(list)).toMatch(/It is created\. .* Chair €1,249\.90 per piece 0 Delete/);
    const id = /products\/([^/]+)\/edit/.exec(list.body)![1]!;
    expect(await stored(id)).toMatchObject({
      name: 'Chair',
      price: 1249.9,
      currency: 'EUR',
      unit: 'piece',
      active: true,
    });
    const path = `/app/products/${id}/edit`;
    const unclear = await member.submit(path, { price: '1,249' });
    expectPage(unclear, 400, 'Is not a clear number');
    expectPage(await member.submit(path, { price: '-3' }), 400, 'Must be at least 0');
    expect((await member.submit(path, { price: '1100', active: 'false' })).status).toBe(303);
    expect(await stored(id)).toMatchObject({ name: 'Chair', price: 1100, active: false, currency: 'EUR' });
    expect(textOf(await member.get('/app/products'))).toContain('Nothing is offered yet');
    expect(textOf(await member.get('/app/products?show=all'))).toContain('Chair €1,100.00 per piece 0 not offered');
  });

  test('that somebody else deletes meanwhile leave the form with what was typed', async () => {
    const id = await make(customer, '/products', productBody({ name: 'Chair' }));
    const path = `/app/products/${id}/edit`;
    const edit = { ...(await admin.fieldsOf(path)), name: 'Stool' };
    await customer.call('DELETE', `/products/${id}`);
    const gone = await admin.post(path, edit);
    expectPage(gone, 404, 'Restore it');
    expect(gone.body).toContain('value="Stool"');
  });

  test('are deleted after a question, stay in opportunities, and come back by Undo', async () => {
    const id = await make(customer, '/products', productBody({ name: 'Chair' }));
    const products = [{ id, price: 5, quantity: 2 }];
    const deal = await make(customer, '/opportunities', await opportunityBody(customer, { products }));
    const question = await admin.get(`/app/products/${id}/delete`);
    expect(textOf(question)).toContain('Opportunities keep it with its price');
    const { location } = await admin.submit(`/app/products/${id}/delete`);
    const after = await admin.get(location!);
    expect(textOf(after)).toContain('Nothing is offered yet');
    expect(textOf(await admin.get(`/app/opportunities/${deal}`))).toContain('Chair');
    const undo = /\/app\/changes\/[^/"]+\/undo/.exec(after.body)![0];
    expect((await admin.submit(undo)).status).toBe(303);
    await workAtUndos(app, customer);
    expect(textOf(await admin.get('/app/products'))).toContain('Chair');
  });

  test('are made in the form of an opportunity, in the currency of its pipeline, together with it or not at all', async () => {
    const deal = { name: 'Fair', product: ' Stand ', price: '1.200,00', quantity: '2' };
    for (const [wrong, message] of [
      [{ price: '1,200' }, '“1,200” is not a clear number: write it as 1249 or 1249.50'],
      [{ price: 'undefined' }, '“undefined” is not a clear number'],
      [{ price: '' }, 'Give a price for “Stand”'],
      [{ product: '' }, 'Name a product for each price'],
      [{ contacts: 'Nobody' }, 'There is no contact “Nobody”'],
    ] as const)
      expect(textOf(await admin.submit('/app/opportunities/new', { ...deal, ...wrong }))).toContain(message);
    expect(textOf(await admin.get('/app/products'))).toContain('Nothing is offered yet');
    const { location } = await admin.submit('/app/opportunities/new', deal);
    const { body } = await customer.get(location!.split('?')[0]!.replace('/app', ''));
    expect(body).toMatchObject({ price: 2400, details: [{ name: 'Stand', price: 1200, quantity: 2 }] });
    expect(textOf(await admin.get('/app/products'))).toContain('Stand US$1,200.00 per piece 1');
    const taken = await admin.submit(`${location!.split('?')[0]!}/edit`, { do: 'row out 0' });
    expect(taken.body).toMatch(/Stand<.*name="quantity"[^>]* value=""/s);
    await admin.submit(`${location!.split('?')[0]!}/edit`, { product: 'Banner', price: '5', quantity: '' });
    expect(textOf(await admin.get(location!))).toMatch(/Stand 2 × .* Banner 1 ×/);
  });

  test('that more than 100 rows of an opportunity name are found, and not made a second time', async () => {
    const product = Array.from({ length: 101 }, (_, i) => `Part ${i}`);
    const deal = { name: 'Fair', product, price: product.map(() => '1'), quantity: product.map(() => '1') };
    for (const _ of ['made', 'found']) expect((await admin.submit('/app/opportunities/new', deal)).status).toBe(303);
    expect((await customer.post('/products/list', { paginate: { limit: 100, page: 2 } })).body).toHaveLength(1);
  });

  test('that another user takes out of an opportunity meanwhile leave its form with the conflict', async () => {
    const deal = { name: 'Fair', product: 'Stand', price: '1200' };
    const path = `${(await admin.submit('/app/opportunities/new', deal)).location!.split('?')[0]!}/edit`;
    const opened = await admin.fieldsOf(path);
    expect((await admin.submit(path, { quantity: '' })).status).toBe(303);
    const { status, body } = await admin.post(path, opened);
    expect([status, body.includes(`value="${opened['product']!}"`)]).toEqual([412, false]);
  });
});

describe('pipelines', () => {
  const rows = (given: readonly (readonly [name: string, percent: string, status: string, id?: string])[]) => ({
    stage_name: given.map(([name]) => name),
    stage_probability_percentage: given.map(([, percent]) => percent),
    stage_status: given.map(([, , status]) => status),
    stage_id: given.map(([, , , id]) => id ?? ''),
  });
  const first = rows([
    ['Offer', '40', 'OPEN'],
    ['Order', '100', 'WON'],
  ]);
  const newest = async () => {
    const [{ id }] = (await customer.get('/pipelines')).body as [{ id: string }];
    return (await customer.get(`/pipelines/${id}`)).body as {
      id: string;
      name: string;
      currency: string;
      visibility: string;
      stages: { id: string; name: string; order: number; status: string; probability_percentage: number }[];
    };
  };

  test('are made, renamed and put in another order by admins; stages keep their opportunities', async () => {
    const made = await admin.submit('/app/pipelines/new', { name: 'Partners', currency: 'eur', ...first });
    expect(made.status).toBe(303);
    const { id, stages, currency } = await newest();
    expect([currency, ...stages.map(({ name }) => name)]).toEqual(['EUR', 'Offer', 'Order']);
    const deal = await make(customer, '/opportunities', await opportunityBody(customer, { stage_id: stages[0]!.id }));
    const path = `/app/pipelines/${id}/edit`;
    const changed = rows([
      ['Order', '100', 'WON', stages[1]!.id],
      ['Talk', '10', 'OPEN'],
      ['Offer sent', '45', 'LOST', stages[0]!.id],
      ['', '', 'OPEN'],
    ]);
    const saved = await admin.submit(path, { name: 'Dealers', ...changed });
    expect(saved.status).toBe(303);
    const now = await newest();
    expect([now.name, now.stages.map(({ name, order }) => `${order} ${name}`)]).toEqual([
      'Dealers',
      ['1 Order', '2 Talk', '3 Offer sent'],
    ]);
    expect((await customer.get(`/opportunities/${deal}`)).body).toMatchObject({ stage_id: stages[0]!.id });
    expect(textOf(await admin.get('/app/pipelines'))).toContain('Dealers Order → Talk → Offer sent EUR everybody');
    const stale = await admin.post(path, { ...(await admin.fieldsOf(path)), etag: '"old"', ...changed });
    expect(stale.status).toBe(412);
    const twice = rows([
      ['Order', '100', 'WON', stages[1]!.id],
      ['Deal', '100', 'WON', stages[1]!.id],
    ]);
    expectPage(await admin.submit(path, { name: 'Dealers', ...twice }), 400, 'This stage stands twice');
  });

  test('take an opportunity from a pipeline of another currency only with its amounts written anew', async () => {
    const made = await admin.submit('/app/opportunities/new', { name: 'Deal', amount: 'US$40,000.00' });
    await admin.submit('/app/pipelines/new', { name: 'Partners', currency: 'EUR', ...first });
    const stage_id = (await newest()).stages[0]!.id;
    const path = made.location!.split('?')[0]!;
    const moved = await admin.submit(`${path}/edit`, { stage_id });
    expectPage(moved, 400, 'Write “40000” in EUR, as all in this pipeline, such as “EUR 40000”');
    expect((await admin.submit(`${path}/edit`, { stage_id, amount: '37,000.50 €' })).status).toBe(303);
    expect((await customer.get(path.replace('/app', ''))).body).toMatchObject({ stage_id, price: 37_000.5 });
    expect(textOf(await admin.get(path))).toContain('Stage: Lead (Sales) → Offer Value: 40,000 → 37,000.50');
    expect(textOf(await admin.get('/app/opportunities'))).toContain('Pipeline Sales Partners Owner');
  });

  test('take no price in another currency for that of a product which the form leaves empty, or does not show', async () => {
    const product = { product: 'Engine', price: '1200', quantity: '1' };
    const made = await admin.submit('/app/opportunities/new', { name: 'Deal', ...product });
    await admin.submit('/app/pipelines/new', { name: 'Partners', currency: 'EUR', ...first });
    const stage_id = (await newest()).stages[0]!.id;
    const path = made.location!.split('?')[0]!;
    const [, id] = /name="product" value="([0-9a-f-]{36})"/.exec((await admin.get(`${path}/edit`)).body)!;
    const empty = { product: '', price: '', quantity: '' };
    for (const row of [{ product: id!, price: '', quantity: '1' }, empty])
      expectPage(await admin.submit(`${path}/edit`, { stage_id, ...row }), 400, 'Write “1200” in EUR');
    const { body } = await customer.get(path.replace('/app', ''));
    expect([body.stage_id === stage_id, body.price]).toEqual([false, 1200]);
  });

  test('keep what another admin has saved since a form was opened: it is shown with the conflict', async () => {
    await admin.submit('/app/pipelines/new', { name: 'Partners', currency: 'EUR', ...first });
    const before = await newest();
    const path = `/app/pipelines/${before.id}/edit`;
    const [offer, order] = before.stages.map(({ id }) => id) as [string, string];
    const old = await admin.fieldsOf(path);
    const mine = rows([
      ['My offer', '40', 'OPEN', offer],
      ['Order', '100', 'WON', order],
    ]);
    const theirs = rows([
      ['Offer', '40', 'OPEN', offer],
      ['Demo', '60', 'OPEN'],
    ]);
    expect((await admin.submit(path, theirs)).status).toBe(303);
    const conflict = await admin.post(path, { ...old, ...mine });
    expect(conflict.status).toBe(412);
    expect([...conflict.body.matchAll(/name="stage_name" value="([^"]+)"/g)].map(([, name]) => name)).toEqual([
      'My offer',
      'Demo',
    ]);
  });

  test('put a stage higher, take one out and get one more before they are saved', async () => {
    const before = await newest();
    const path = `/app/pipelines/${before.id}/edit`;
    const sent = rows(before.stages.map(({ id, name }) => [name, '10', 'OPEN', id] as const));
    const names = async (what: string): Promise<string[]> => {
      const page = await admin.submit(path, { ...sent, do: `row ${what}` });
      expect(page.status).toBe(200);
      return [...page.body.matchAll(/name="stage_name" value="([^"]*)"/g)].map(([, name]) => name!);
    };
    const [first, second, ...others] = before.stages.map(({ name }) => name) as [string, string];
    expect(await names('up 1')).toEqual([second, first, ...others]);
    expect(await names('out 0')).toEqual([second, ...others]);
    expect(await names('down 0')).toEqual([second, first, ...others]);
    expect(await names('add')).toEqual([first, second, ...others, '']);
    sent.stage_status = before.stages.map(({ status }) => status);
    expect((await names('add')).slice(-3)).toEqual(['', 'Won', 'Lost']);
    expect(await names('up x')).toHaveLength(before.stages.length);
    expect(await newest()).toEqual(before);
  });

  test('whose form a button has changed keep it over the next ones, and what others saved meanwhile is a conflict', async () => {
    const before = await newest();
    const path = `/app/pipelines/${before.id}/edit`;
    const namesIn = ({ body }: { body: string }) =>
      [...body.matchAll(/name="stage_name" value="([^"]*)"/g)].map(([, name]) => name!);
    const opened = await admin.fieldsOf(path);
    const [lead, qualified, ...others] = before.stages.map(({ id, name }) => [name, '10', 'OPEN', id] as const);
    const without = rows([lead!, ...others]);
    const names = [lead!, ...others].map(([name]) => name);
    expect(namesIn(await admin.submit(path, { ...without, do: 'row add' }))).toEqual([...names, '']);
    expect(namesIn(await admin.submit(path, { ...without, visibility: 'NOBODY' }))).toEqual(names);

    expect((await admin.submit(path, rows([qualified!, ...others]))).status).toBe(303);
    const acted = await admin.post(path, { ...opened, ...rows([lead!, qualified!, ...others]), do: 'row out 2' });
    expect(namesIn(acted)).toEqual([lead![0], qualified![0], ...others.slice(1).map(([name]) => name)]);
    expect((await admin.post(path, { ...filledFields(acted.body, path), ...without })).status).toBe(412);
  });

  test('take the name of another one only after a question, which leaves the rows as they are', async () => {
    const path = `/app/pipelines/${(await newest()).id}/edit`;
    const asked = await admin.submit('/app/pipelines/new', { name: ' SALES', currency: 'EUR', ...first });
    expectPage(
      asked,
      409,
      /There is a pipeline of this name already: Sales ?\. Change the name, .* Save it all the same/,
    );
    const again = { ...filledFields(asked.body, '/app/pipelines/new'), ...first };
    expect((await admin.post('/app/pipelines/new', again)).status).toBe(303);
    expect((await newest()).name).toBe('SALES');
    // A name that stays is no question.
    expect((await admin.submit(path, first)).status).toBe(303);
    await admin.submit(path, { name: 'Partners' });
    const renamed = await admin.submit(path, { name: 'Sales', ...first, do: 'save' });
    expectPage(renamed, 409, 'There is a pipeline of this name already');
    expect(renamed.body.split('name="stage_name"').length - 1).toBe(2);
  });

  test('lose a stage only if it has no opportunities, and a refused form changes nothing', async () => {
    const [lead, qualified, ...others] = await stagesOf(customer);
    await make(customer, '/opportunities', await opportunityBody(customer, { stage_id: lead!.id }));
    const before = await newest();
    const path = `/app/pipelines/${before.id}/edit`;
    const kept = (stages: typeof others) => rows(stages.map(({ id, name }) => [name, '10', 'OPEN', id] as const));
    const refused = await admin.submit(path, kept([qualified!, ...others]));
    expectPage(refused, 409, `“${lead!.name}” has opportunities (1). Move them to another stage first`);
    expect(refused.body).toMatch(
      new RegExp(`name="stage_name" value="${lead!.name}".* value="${qualified!.name}"`, 's'),
    );
    expect(await newest()).toEqual(before);
    expect((await admin.submit(path, kept([lead!, ...others]))).status).toBe(303);
    expect((await newest()).stages.map(({ name }) => name)).not.toContain(qualified!.name);
    const none = await admin.submit(path, rows([['', '', 'OPEN']]));
    expectPage(none, 400, 'A pipeline needs at least one stage');
    const wrong = await admin.submit(path, rows([['', '10', 'OPEN', lead!.id]]));
    expect(textOf(wrong)).toMatch(/Give the stage a name, or remove it\. (?!Must)/);
    const faulty = [
      ['', '', 'OPEN'],
      ['Lead', '110', 'OPEN', lead!.id],
      ['léad', '20', 'OPEN'],
      ['', 'ten', 'OPEN'],
    ] as const;
    const { body } = await admin.submit(path, rows(faulty));
    const marked = [
      ...body.matchAll(/aria-label="([^"]+)"[^>]* aria-describedby="([^"]+)" +name[^>]*> *<small[^>]*>([^<]+)/g),
    ];
    expect(marked.map(([, cell, , fault]) => `${cell}: ${fault}`)).toEqual([
      'Chance to win of stage 1: Write a whole number from 0 to 100.',
      'Name of stage 2: Another stage has this name: choose a different one, or remove it.',
      'Name of stage 3: Give the stage a name, or remove it.',
      'Chance to win of stage 3: Write a whole number from 0 to 100.',
    ]);
    expect(marked.every(([, , about]) => body.includes(`id="${about}"`))).toBe(true);
    const foreign = await admin.submit(path, rows([['X', '1', 'OPEN', before.id]]));
    expect(foreign.status).toBe(404);
  });

  test('for admins only are not offered to members, whose form keeps an opportunity where it is', async () => {
    const member = await visitorOf(app.fastify, customer.id, 'member');
    for (const path of ['/app/pipelines', '/app/pipelines/new']) expect((await member.get(path)).status).toBe(403);
    await admin.submit('/app/pipelines/new', { name: 'Secret', currency: 'EUR', visibility: 'PRIVATE', ...first });
    const { stages } = await newest();
    expect(textOf(await admin.get('/app/opportunities'))).toContain('Secret');
    expect(textOf(await member.get('/app/opportunities'))).not.toContain('Secret');
    expect(textOf(await member.get('/app/opportunities/new'))).not.toContain('Offer');
    const deal = await make(customer, '/opportunities', await opportunityBody(customer, { stage_id: stages[1]!.id }));
    expect((await member.submit(`/app/opportunities/${deal}/edit`, { name: 'Renamed' })).status).toBe(303);
    expect((await customer.get(`/opportunities/${deal}`)).body).toMatchObject({
      name: 'Renamed',
      stage_id: stages[1]!.id,
    });
    const [lead] = await stagesOf(customer);
    await customer.patch(`/opportunities/${deal}`, { stage_id: lead!.id });
    const told = async (visitor: Visitor) => textOf(await visitor.get(`/app/opportunities/${deal}`));
    expect(await told(member)).toContain('Stage: a stage elsewhere → Lead');
    expect(await told(admin)).toContain('Stage: Order (Secret) → Lead');
  });
});
