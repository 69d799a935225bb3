import { faker } from '@faker-js/faker/locale/en';
import type { Transaction } from '../database/db.ts';
import { findContacts } from '../queries/crm/contacts.ts';
import { createList } from '../queries/crm/lists.ts';
import { writeActivityBatch } from '../queries/activities/activities.ts';
import { addMembers } from '../queries/memberships/list-members.ts';
import { createOpportunity } from '../queries/sales/opportunities.ts';
import { withLastWrites } from '../queries/records/last-writes.ts';
import { listPipelinesWithStages } from '../queries/sales/pipelines.ts';
import { createProduct } from '../queries/sales/products.ts';
import type { ActivityCreate } from '../schemas/activities.ts';
import type { ListCreate } from '../schemas/lists.ts';
import { priorities } from '../schemas/opportunities.ts';
import type { ProductCreate } from '../schemas/products.ts';

interface Team {
  customerId: string;
  /** The first user becomes the owner of the demo's lists. */
  userIds: string[];
  contactIds: string[];
}

const lists: ListCreate[] = [
  {
    name: 'Germany',
    description: 'Everybody who sits in Germany',
    rules: [{ field: 'location_country', operator: 'equals', value: 'DE' }],
  },
  {
    name: 'Engineers and developers',
    description: 'By job title, whoever they work for',
    rules: [
      { field: 'job_title', operator: 'contains', value: 'engineer' },
      { field: 'job_title', operator: 'contains', value: 'developer', logic_operator: 'OR' },
    ],
  },
  {
    name: 'Software and finance in Europe',
    description: 'Two industries, without the Americas',
    rules: [
      { field: 'company.industry', operator: 'in', value: 'Software, Financial Services' },
      { field: 'location_country', operator: 'not_in', value: 'US, BR' },
    ],
  },
];

const products: ProductCreate[] = [
  { name: 'Starter plan', price: 29, unit: 'seat' },
  { name: 'Team plan', price: 79.5, unit: 'seat' },
  { name: 'Onboarding workshop', price: 1250, unit: 'day' },
  { name: 'Data import', price: 0.0125, unit: 'record' },
  { name: 'Priority support', price: 490, unit: 'month' },
  { name: 'Printed handbook', price: 19.99, unit: 'piece', active: false },
];

/** Creates lists, products, opportunities in every stage, and activities. Every call creates the same data, apart from dates. */
export async function makeDemoSales(sql: Transaction, team: Team): Promise<void> {
  faker.seed(20_260_102);
  const { customerId, userIds, contactIds } = team;
  for (const list of lists) await createList(sql, customerId, userIds[0]!, list);
  const fair = await createList(sql, customerId, userIds[0]!, {
    name: 'Met at the fair',
    description: 'Put in by hand',
  });
  await addMembers(sql, customerId, { list_id: fair.id, contact_ids: contactIds.slice(0, 40) });
  const productIds: string[] = [];
  for (const product of products) productIds.push(await createProduct(sql, customerId, product));
  const [pipeline] = await listPipelinesWithStages(sql, customerId);
  for (const [i, stage] of pipeline!.stages.entries())
    for (let n = 0; n < 6 - i / 2; n += 1) await makeOpportunity(sql, team, stage.id, productIds);
  await makeActivities(sql, team);
}

const past: Pick<ActivityCreate, 'type' | 'title' | 'body'>[] = [
  { type: 'note', body: 'Met at the fair. Wants to replace their spreadsheets before the end of the year.' },
  { type: 'note', body: 'Budget is approved. Purchasing asks for references in the same industry.' },
  { type: 'call', title: 'First call', body: 'Twelve seats to begin with. Asked about the import of old data.' },
  { type: 'call', title: 'No answer', body: '' },
  { type: 'meeting', title: 'Demo with the team', body: 'They liked the lists. Open point: single sign-on.' },
  { type: 'email', title: 'Sent the offer', body: 'Team plan with one day of onboarding.' },
];
const tasks = ['Call back', 'Send the offer', 'Ask for references', 'Prepare the demo', 'Renew the contract'];
const dayMs = 86_400_000;

/** What happened with every other contact, and what is to be done, some of it late. */
async function makeActivities(sql: Transaction, { customerId, userIds, contactIds }: Team): Promise<void> {
  const ofContact = (contact_id: string, i: number): ActivityCreate[] => {
    const assigned_to = faker.helpers.arrayElement(userIds);
    const happened = faker.helpers.arrayElements(past, { min: 1, max: 3 }).map((activity) => ({
      ...activity,
      contact_id,
      occurred_at: faker.date.recent({ days: 90 }).toISOString(),
    }));
    if (i % 3 > 0) return happened;
    const due = Date.now() + faker.number.int({ min: -20, max: 40 }) * dayMs;
    const isDone = due < Date.now() && i % 2 === 0;
    const task = { type: 'task' as const, title: faker.helpers.arrayElement(tasks), contact_id, assigned_to };
    const times = {
      due_at: new Date(due).toISOString(),
      ...(isDone && { done_at: new Date(due - dayMs).toISOString() }),
    };
    return [...happened, { ...task, ...times }];
  };
  const items = contactIds.filter((_, i) => i % 2 === 0).flatMap(ofContact);
  const batch = { operation: 'create', match: 'id', isAtomic: true, items } as const;
  await withLastWrites(sql, customerId, (last) => writeActivityBatch(sql, customerId, batch, last));
}

async function makeOpportunity(sql: Transaction, team: Team, stage_id: string, productIds: string[]): Promise<void> {
  const { customerId, userIds, contactIds } = team;
  const contacts_ids = faker.helpers.arrayElements(contactIds, { min: 1, max: 3 });
  const [contact] = await findContacts(sql, customerId, [contacts_ids[0]!]);
  const sold = faker.helpers.arrayElements([...productIds.keys()], { min: 1, max: 3 });
  const name = `${products[sold[0]!]!.name} for ${contact!.company?.company_name ?? contact!.last_name}`;
  const estimated_closing_date = faker.date.soon({ days: 120 }).toISOString();
  await createOpportunity(sql, customerId, {
    name,
    stage_id,
    contacts_ids,
    user_id_assigned: faker.helpers.arrayElement(userIds),
    products: sold.map((at) => ({
      id: productIds[at]!,
      price: products[at]!.price,
      quantity: faker.number.int({ min: 1, max: 40 }) * (products[at]!.price < 1 ? 1_000 : 1),
    })),
    estimated_closing_date,
    close_date: estimated_closing_date,
    priority: faker.helpers.arrayElement(priorities),
    ...(contact!.company?.id ? { company_id: contact!.company.id } : {}),
  });
}
