import { Type, type Static } from '@sinclair/typebox';
import { Email, Enum, Name, Uuid } from './wire.ts';

/** Roles of users. An admin can manage API keys; a member cannot. */
export const roles = ['admin', 'member'] as const;
export type Role = (typeof roles)[number];

/** A user of a customer. In other records, the fields `assigned_to` and `user_id_assigned` hold a user's id. */
export const User = Type.Object(
  {
    id: Uuid(),
    name: Name(),
    email: Email(),
    role: Enum(roles),
    active: Type.Boolean({ description: 'false after the user is deactivated' }),
  },
  { title: 'User' },
);
export type User = Static<typeof User>;

/** Schema of a new password: 12–128 characters. */
export const NewPassword = () => Type.String({ minLength: 12, maxLength: 128, examples: ['correct horse battery'] });
