import { Type, type Static } from '@sinclair/typebox';
import { NewPassword, roles } from './users.ts';
import { Email, Enum, Instant, Name, Strict, Uuid } from './wire.ts';

/**
 * Schema of a password in a login request. The rules for new passwords do not apply, because an old password may have
 * been set under other rules.
 */
const ClaimedPassword = () => Type.String({ minLength: 1, maxLength: 1024 });

export const Login = Strict(
  { email: Email(), password: ClaimedPassword() },
  { examples: [{ email: 'ada.lovelace@example.com', password: 'correct horse battery' }] },
);
export type Login = Static<typeof Login>;

/** Response of a login. The client sends `token` with later requests, as `Authorization: Bearer <token>`. */
export const Session = Type.Object(
  {
    token: Type.String({ description: 'shown only in this response' }),
    expires_at: Instant(),
    user: Type.Object({ id: Uuid(), name: Name(), email: Email(), customer_id: Uuid(), role: Enum(roles) }),
  },
  { title: 'Session' },
);
export type Session = Static<typeof Session>;

export const PasswordChange = Strict(
  { current_password: ClaimedPassword(), new_password: NewPassword() },
  { examples: [{ current_password: 'correct horse battery', new_password: 'staple of another kind' }] },
);
export type PasswordChange = Static<typeof PasswordChange>;
