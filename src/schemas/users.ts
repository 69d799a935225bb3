import { Type, type Static } from '@sinclair/typebox';
import { Email, Enum, Name, Strict, Uuid } from './base/wire.ts';

export const roles = ['admin', 'member'] as const;
export type Role = (typeof roles)[number];

export const Role = () => Enum(roles, 'An `admin` can manage API keys; a `member` cannot.');

export const User = Type.Object(
  {
    id: Uuid('Id of the user, for `assigned_to` and `user_id_assigned`.'),
    name: Name('Name of the user.'),
    email: Email('E-mail address of the user, with which the user logs in.'),
    role: Role(),
    active: Type.Boolean({ description: 'False after the user is deactivated.' }),
  },
  { title: 'User' },
);
export type User = Static<typeof User>;

/** What an admin says of a new user. */
export const UserCreate = Strict({
  name: Name('Name of the user.'),
  email: Email('E-mail address of the user, unique among all users.'),
  role: Role(),
});
export type UserCreate = Static<typeof UserCreate>;

export const NewPassword = () =>
  Type.String({
    minLength: 12,
    maxLength: 128,
    description: 'The new password: 12–128 characters.',
    examples: ['correct horse battery'],
  });
