import type { Command } from 'commander';
import { enqueueAllTurns } from '../queries/records/turns.ts';
import { requireCustomer, createCustomer, listCustomers, setCustomerStatus } from '../queries/accounts/customers.ts';
import type { Customer, CustomerStatus } from '../queries/accounts/customers.ts';
import { commandAction, asCountry, asName, asText, table, verb } from './command.ts';
import { inTransaction, withDatabase } from './database.ts';

export function define(command: Command): void {
  verb(command, 'create', 'create a customer with a free subscription and a sales pipeline')
    .requiredOption('--name <name>', 'business name', asName)
    .option('--country <code>', 'ISO 3166-1 alpha-2', asCountry)
    .option('--city <city>', 'city of the business', asText(255))
    .action(commandAction(create, print));

  verb(command, 'list', 'list all customers, newest first').action(commandAction(list, print));

  verb(command, 'suspend', 'reject all keys and sessions of a customer until it is resumed', 'customer').action(
    commandAction(setStatus('SUSPENDED'), print),
  );

  verb(command, 'resume', 'end a suspension', 'customer').action(commandAction(setStatus('OK'), print));
}

const create = (options: { name: string; country?: string; city?: string }): Promise<Customer> =>
  inTransaction((sql) =>
    createCustomer(sql, {
      business_name: options.name,
      country: options.country ?? null,
      city: options.city ?? null,
    }),
  );

const list = (): Promise<Customer[]> => withDatabase((db) => db.search(listCustomers));

const setStatus =
  (status: CustomerStatus) =>
  (options: { customer: string }): Promise<Customer> =>
    inTransaction(async (sql) => {
      await setCustomerStatus(sql, options.customer, status);
      const customer = await requireCustomer(sql, options.customer);
      if (status === 'OK') await enqueueAllTurns(sql, customer.id);
      return customer;
    });

const print = (customers: Customer | Customer[]): string =>
  table(customers, { ID: 'id', NAME: 'business_name', STATUS: 'status', CREATED: 'created_at' });
