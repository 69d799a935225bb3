import { Type, type Static } from '@sinclair/typebox';
import { Nullable, Uuid } from './wire.ts';

const Price = (options: object = {}) => Type.String({ pattern: '^\\d+\\.\\d{2}$', examples: ['0.00'], ...options });

/**
 * The customer account to which an API key belongs, with users and subscription. Prices are strings with two decimals.
 */
export const CustomerSummary = Type.Object(
  {
    customer: Type.Object({
      id: Uuid(),
      business_name: Type.String(),
      status: Type.String({ examples: ['OK'] }),
      country: Nullable(Type.String()),
      city: Nullable(Type.String()),
    }),
    users_count: Type.Integer({ description: 'all users' }),
    subscription: Type.Object({
      id: Uuid(),
      status: Type.String({ examples: ['active'] }),
      balance: Type.Integer({ description: 'credits that can be spent' }),
      price: Price(),
      periodicity: Type.String({ examples: ['monthly'] }),
      // Lower case, as the contract has it. All other currencies are upper case.
      currency: Type.String({ examples: ['usd'] }),
      tier: Type.Object({
        id: Uuid(),
        title: Type.String({ examples: ['Free'] }),
        tier: Type.Integer(),
        is_free: Type.Boolean(),
        price: Price(),
      }),
      active_seats: Type.Integer({ description: 'users that are not deactivated' }),
    }),
  },
  { title: 'CustomerSummary' },
);
export type CustomerSummary = Static<typeof CustomerSummary>;
