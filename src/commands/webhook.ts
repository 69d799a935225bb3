import type { Command } from 'commander';
import { endpointCreation, secretRotation, showEndpoints, testEndpoint, updateEndpoint } from '../accounts/webhooks.ts';
import type { Issued, Management } from '../accounts/webhooks.ts';
import { requireOwner } from '../queries/records/finders.ts';
import { deleteEndpoint } from '../queries/accounts/webhook-endpoints.ts';
import { commandLine } from '../schemas/accounts.ts';
import { eventTypes, type EventType } from '../schemas/events.ts';
import type { Endpoint, EndpointSettings, TestResult } from '../schemas/webhooks.ts';
import { openSender } from '../accounts/webhook-sender.ts';
import { withCustomer, withServices } from './database.ts';
import { asSome, closing, commandAction, table, verb } from './command.ts';

export function define(command: Command): void {
  verb(command, 'create', 'create an endpoint to which events are sent; only this command shows its secret', 'customer')
    .requiredOption('--url <url>', 'https URL with a public address')
    .requiredOption('--types <types>', 'types of events, separated by commas', asSome('type', eventTypes))
    .option('--bulk', 'also send events of records that an import or a job has written')
    .action(commandAction(create, describeSecret));

  verb(command, 'list', "list a customer's endpoints, newest first, without their secrets", 'customer').action(
    commandAction(list, print),
  );

  const verbs = {
    enable: 'send events to an endpoint again, from now on',
    disable: 'send no events to an endpoint',
  };
  for (const [name, about] of Object.entries(verbs))
    verb(command, name, about, 'webhook').action(commandAction(activate(name === 'enable'), describe));
  verb(command, 'rotate', 'give an endpoint a new secret; only this command shows it', 'webhook').action(
    commandAction(rotate, describeSecret),
  );
  verb(command, 'test', 'send the event webhook.test to an endpoint now', 'webhook').action(
    commandAction(sendTest, describeTest),
  );
  verb(command, 'delete', 'delete an endpoint', 'webhook').action(commandAction(remove, ({ id }) => `Deleted ${id}`));
}

const create = (options: { customer: string; url: string; types: EventType[]; bulk?: true }): Promise<Issued> =>
  withCustomer(options.customer, async ({ db, config }, { id: customerId }) => {
    const { url, types, bulk = false } = options;
    return db.transaction(await endpointCreation({ db, config, customerId, by: commandLine }, { url, types, bulk }));
  });

const list = ({ customer }: { customer: string }): Promise<Endpoint[]> =>
  withCustomer(customer, ({ db }) => showEndpoints({ db, customerId: customer }));

const withEndpoint = <T>(id: string, work: (management: Management) => Promise<T>): Promise<T> =>
  withServices(async ({ db, config }) => {
    const customerId = await db.search((sql) => requireOwner(sql, 'webhook_endpoints', id));
    return work({ db, config, customerId, by: commandLine });
  });

const activate =
  (active: boolean) =>
  ({ webhook }: { webhook: string }): Promise<EndpointSettings> =>
    withEndpoint(webhook, (management) => updateEndpoint(management, webhook, { active }));

const rotate = ({ webhook }: { webhook: string }): Promise<Issued> =>
  withEndpoint(webhook, (management) => management.db.transaction(secretRotation(management, webhook)));

const remove = ({ webhook }: { webhook: string }): Promise<{ id: string }> =>
  withEndpoint(webhook, async ({ db, customerId, by }) => {
    await db.transaction((sql) => deleteEndpoint(sql, customerId, webhook, by));
    return { id: webhook };
  });

const sendTest = ({ webhook }: { webhook: string }): Promise<TestResult> =>
  withEndpoint(webhook, (management) =>
    closing(openSender(management.config), (sender) => testEndpoint(management, sender, webhook)),
  );

const describeSecret = ({ id, secret }: Issued): string =>
  [secret, '', `This secret is shown only once. The endpoint's id is ${id}.`].join('\n');

const describe = ({ id, url, active }: EndpointSettings): string => `${id} ${url} is ${active ? 'active' : 'inactive'}`;

const describeTest = ({ ok, status, error, ms }: TestResult): string =>
  `${ok ? 'Delivered' : `Failed (${error})`}${status === null ? '' : `, status ${status}`}, after ${ms} ms`;

const print = (endpoints: Endpoint[]): string =>
  table(endpoints, {
    ID: 'id',
    URL: 'url',
    ACTIVE: ({ active, disabled_reason }) => (active ? 'yes' : `no${disabled_reason ? ` (${disabled_reason})` : ''}`),
    WAITING: 'waiting',
    'GIVEN UP': 'given_up',
    'FAILING SINCE': 'failing_since',
    'LAST SUCCESS': 'last_success_at',
    TYPES: ({ types }) => (types.length === eventTypes.length ? 'all types' : types.join(',')),
  });
