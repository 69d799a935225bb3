import { expect, test } from 'vitest';
import { createPipeline, salesStages } from '../../src/queries/crm/pipelines.ts';
import { customerOfEachTest, startApp } from '../setup/app.ts';
import { make, opportunityBody, stagesOf, type TestCustomer } from '../setup/factories.ts';

const app = await startApp();
const customer = customerOfEachTest(app);

const makePipeline = (by: TestCustomer, name: string): Promise<string> =>
  app.db.transaction((sql) =>
    createPipeline(sql, by.id, {
      name,
      description: 'd',
      currency: 'EUR',
      visibility: 'PRIVATE',
      stages: salesStages.slice(0, 2),
    }),
  );

test('pipelines are listed newest first, with exactly the fields of a list item', async () => {
  const id = await makePipeline(customer, 'Second');
  const { status, body } = await customer.get('/pipelines');
  expect(status).toBe(200);
  expect(body).toEqual([
    { id, name: 'Second', description: 'd', currency: 'EUR', active: true },
    { id: expect.any(String), name: 'Sales', description: '', currency: 'USD', active: true },
  ]);
});

test('pipelines are returned with their stages in order', async () => {
  const [{ id }] = (await customer.get('/pipelines')).body;
  const answer = await customer.get(`/pipelines/${id}`);
  expect(answer).toMatchObject({ status: 200, headers: { etag: expect.stringMatching(/^"[^"]+"$/) } });
  const stage = (order: number, name: string, probability_percentage: number, status = 'OPEN') => ({
    id: expect.any(String),
    name,
    order,
    pipeline_id: id,
    probability_percentage,
    status,
  });
  expect(answer.body).toEqual({
    id,
    name: 'Sales',
    description: '',
    currency: 'USD',
    active: true,
    visibility: 'PUBLIC',
    stages: [
      stage(1, 'Lead', 10),
      stage(2, 'Qualified', 25),
      stage(3, 'Proposal', 50),
      stage(4, 'Negotiation', 75),
      stage(5, 'Won', 100, 'WON'),
      stage(6, 'Lost', 0, 'LOST'),
    ],
    created_at: expect.stringMatching(/Z$/),
    updated_at: expect.stringMatching(/Z$/),
  });
});

test('the stage list is 201 with the stages in order and the number of opportunities in each', async () => {
  const stages = await stagesOf(customer);
  const body = await opportunityBody(customer);
  const ids = [];
  for (const index of [0, 0, 4, 4, 4])
    ids.push(await make(customer, '/opportunities', { ...body, stage_id: stages[index]!.id }));
  await customer.patch(`/opportunities/${ids[0]}`, { stage_id: stages[1]!.id });
  await customer.delete(`/opportunities/${ids[4]}`);
  const answer = await customer.post('/stages/list', { pipeline_id: stages[0]!.pipeline_id });
  expect(answer.status).toBe(201);
  expect(answer.body).toEqual(
    stages.map((stage, index) => ({ ...stage, total_opportunities: [1, 1, 0, 0, 2, 0][index] })),
  );
});

test('the stage list has pages, and contains one pipeline only', async () => {
  const pipeline_id = await makePipeline(customer, 'Second');
  const page = async (page: number) =>
    (await customer.post('/stages/list', { pipeline_id, paginate: { page, limit: 1 } })).body.map(
      ({ name }: { name: string }) => name,
    );
  expect([await page(1), await page(2), await page(3)]).toEqual([['Lead'], ['Qualified'], []]);
});
