import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { replacePassword } from '../../accounts/sessions.ts';
import { Unauthorized, type Fault } from '../../errors.ts';
import { LoginAttempts } from '../../limits/login-attempts.ts';
import { actorOf, sessionOf } from '../../plugins/credentials/auth.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { PasswordChange } from '../../schemas/users.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers } from '../base/access.ts';
import {
  doneNotice,
  fieldsOf,
  inputField,
  notSent,
  refusalOf,
  requireValid,
  text,
  type Faults,
  type Fields,
} from '../base/forms.ts';
import { html, type Html } from '../base/html.ts';
import { goTo, sendForm } from '../base/layout.ts';

const path = '/app/password';

export async function password(app: FastifyInstance): Promise<void> {
  const attempts = new LoginAttempts(app.rateLimits);
  const check = compile(PasswordChange);

  app.get('/password', forMembers, async (request, reply) => show(request, reply));

  app.post(
    '/password',
    { ...forMembers, onRequest: ({ address }) => attempts.check(address) },
    async (request, reply) => {
      const fields = fieldsOf(request);
      const body = {
        current_password: text(fields, 'current_password'),
        new_password: text(fields, 'new_password'),
      };
      const session = sessionOf(request);
      try {
        requireValid(check, body, passwordFaults(fields));
        await attempts.run(request.address, session.email, () =>
          replacePassword(request.db, session, body, actorOf(request)),
        );
        return await goTo(reply, `${path}?done=1`);
      } catch (error) {
        if (!(error instanceof Unauthorized)) return show(request, reply, refusalOf(error));
        request.log.info({ credential: error.credential, reason: error.reason }, 'refused');
        const faults = { current_password: 'This is not your password.' };
        return show(request, reply, { faults, status: statuses.unauthorized });
      }
    },
  );
}

/** Returns the faults of a new password that differs from the repeated one, or not from the current one. */
export function passwordFaults(fields: Fields): Fault[] {
  const [current, given, repeated] = ['current_password', 'new_password', 'repeated'].map((name) => text(fields, name));
  return [
    ...(repeated === given ? [] : [{ path: '/repeated', message: 'this differs from the new password' }]),
    ...(current === given && given !== ''
      ? [{ path: '/new_password', message: 'this is the current password. Choose another one' }]
      : []),
  ];
}

const passwordField = (faults: Faults, name: string, label: string, autocomplete: string, hint = ''): Html =>
  inputField(
    { name, label, hint, faults },
    '',
    'password',
    html`autocomplete="${autocomplete}" maxlength="1024" required`,
  );

/** Returns the two fields for a new password. */
export const newPasswordFields = (faults: Faults): Html =>
  html`!${passwordField(faults, 'new_password', 'New password', 'new-password', '12 to 128 characters.')}
  !${passwordField(faults, 'repeated', 'New password, repeated', 'new-password')}`;

const show = (request: FastifyRequest, reply: FastifyReply, refused = notSent): FastifyReply =>
  sendForm(request, reply, {
    title: 'Password',
    section: path,
    lead: html`!${doneNotice(request, { 1: 'Your password is changed. Your other sessions have ended.' })}
      <p class="lead">Changing it ends your other sessions. API keys go on working.</p>`,
    action: path,
    body: html`<input type="hidden" name="username" value="${sessionOf(request).email}" autocomplete="username" />
      !${passwordField(refused.faults, 'current_password', 'Current password', 'current-password')}
      !${newPasswordFields(refused.faults)}
      <button>Change the password</button>`,
    fields: ['current_password', 'new_password', 'repeated'],
    refused,
    isNarrow: true,
  });
