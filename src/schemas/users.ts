import { Type, type Static } from '@sinclair/typebox';
import { Email, Enum, Name, Uuid } from './wire.ts';

/** What a user may do with keys: an admin manages them, a member only works with records. */
export const roles = ['admin', 'member'] as const;
export type Role = (typeof roles)[number];

/** A user, as `assigned_to` and `user_id_assigned` refer to one. */
export const User = Type.Object(
  {
    id: Uuid(),
    name: Name(),
    email: Email(),
    role: Enum(roles),
    active: Type.Boolean({ description: 'false once deactivated' }),
  },
  { title: 'User' },
);
export type User = Static<typeof User>;

/** A password somebody chooses: 12–128 characters. */
export const NewPassword = () => Type.String({ minLength: 12, maxLength: 128, examples: ['correct horse battery'] });
