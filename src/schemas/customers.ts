import { Type, type Static } from '@sinclair/typebox';
import { Nullable, Uuid } from './base/wire.ts';

const Price = (description: string) =>
  Type.String({
    pattern: '^\\d+\\.\\d{2}$',
    description: `${description}, as text with two decimals.`,
    examples: ['0.00'],
  });

/** Prices are strings with two decimals. */
export const CustomerSummary = Type.Object(
  {
    customer: Type.Object(
      {
        id: Uuid('Id of the customer.'),
        business_name: Type.String({ description: 'Name of the company.', examples: ['Analytical Engines Ltd'] }),
        status: Type.String({ description: 'State of the account.', examples: ['OK'] }),
        country: Nullable(Type.String({ description: 'Country of the company.' })),
        city: Nullable(Type.String({ description: 'City of the company.' })),
      },
      { description: 'The customer that the API key belongs to.' },
    ),
    users_count: Type.Integer({ description: 'Number of all users, deactivated ones too.' }),
    subscription: Type.Object(
      {
        id: Uuid('Id of the subscription.'),
        status: Type.String({ description: 'State of the subscription.', examples: ['active'] }),
        balance: Type.Integer({
          description: 'Credits for unlocking prospects that can be spent. Reserved ones are not counted.',
        }),
        price: Price('Price of a period'),
        periodicity: Type.String({ description: 'How long a period is.', examples: ['monthly'] }),
        // Lower case, as the contract has it. All other currencies are upper case.
        currency: Type.String({ description: 'ISO 4217 currency code, here in lower case.', examples: ['usd'] }),
        tier: Type.Object(
          {
            id: Uuid('Id of the tier.'),
            title: Type.String({ description: 'Name of the tier.', examples: ['Free'] }),
            tier: Type.Integer({ description: 'Number of the tier. Higher tiers offer more.' }),
            is_free: Type.Boolean({ description: 'Whether the tier costs nothing.' }),
            price: Price('Price of the tier'),
          },
          { description: 'What was subscribed to.' },
        ),
        active_seats: Type.Integer({ description: 'Number of users that are not deactivated.' }),
      },
      { description: 'The subscription of the customer.' },
    ),
  },
  { title: 'CustomerSummary' },
);
export type CustomerSummary = Static<typeof CustomerSummary>;
