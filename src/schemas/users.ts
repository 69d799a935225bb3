import { Type, type Static } from '@sinclair/typebox';
import { Email, Enum, Instant, Name, Strict, Uuid } from './base/wire.ts';

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

/** Any password: an old one may break the current rules. */
const ClaimedPassword = () => Type.String({ minLength: 1, maxLength: 1024, description: 'The current password.' });

export const Login = Strict(
  { email: Email('E-mail address of the user.'), password: ClaimedPassword() },
  { examples: [{ email: 'ada.lovelace@example.com', password: 'correct horse battery' }] },
);
export type Login = Static<typeof Login>;

export const Session = Type.Object(
  {
    token: Type.String({
      description: 'The session token, for `Authorization: Bearer <token>`. Only this response shows it.',
    }),
    expires_at: Instant('When the session ends: 12 hours after the login.'),
    user: Type.Object(
      {
        id: Uuid('Id of the user.'),
        name: Name('Name of the user.'),
        email: Email('E-mail address of the user.'),
        customer_id: Uuid('The customer that the user belongs to.'),
        role: Role(),
      },
      { description: 'The user who logged in.' },
    ),
  },
  { title: 'Session' },
);
export type Session = Static<typeof Session>;

export const PasswordChange = Strict(
  { current_password: ClaimedPassword(), new_password: NewPassword() },
  { examples: [{ current_password: 'correct horse battery', new_password: 'staple of another kind' }] },
);
export type PasswordChange = Static<typeof PasswordChange>;

export const PasswordByLink = Strict({ new_password: NewPassword() });
