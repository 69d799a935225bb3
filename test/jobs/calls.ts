import type { TestApp } from '../setup/app.ts';
import { grant, type Answer, type TestCustomer } from '../setup/factories.ts';

/** Creates a customer with the given credits in each pool. */
export async function customerWith(
  app: TestApp,
  credits: { subscription?: number; verification?: number },
): Promise<TestCustomer> {
  const customer = await app.customer();
  if (credits.subscription) await grant(app.fastify, customer.id, 'subscription', credits.subscription);
  if (credits.verification) await grant(app.fastify, customer.id, 'verification', credits.verification);
  return customer;
}

type Call = (customer: TestCustomer, body: object, headers?: Record<string, string>) => Promise<Answer>;

/** The requests that start jobs. Each returns the response unchanged. */
export const unlock: Call = (customer, body, headers) =>
  customer.post('/service-handler/unlock-contacts', body, headers);
export const select: Call = (customer, body, headers) =>
  customer.post('/service-handler/unlock-selected-contacts', body, headers);
export const verify: Call = (customer, body, headers) => customer.post('/service-handler/verify-email', body, headers);

/** Requests a job and returns the response. */
export const read = (customer: TestCustomer, id: string): Promise<Answer> => customer.get(`/service-handler/${id}`);

/** Returns the customer's credits in each pool. */
export const creditsOf = async (customer: TestCustomer) => (await customer.get('/customer/credits')).body;
