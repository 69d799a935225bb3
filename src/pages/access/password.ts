import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { replacePassword } from '../../accounts/sessions.ts';
import { Unauthorized } from '../../errors.ts';
import { LoginAttempts } from '../../limits/login-attempts.ts';
import { actorOf, sessionOf } from '../../plugins/credentials/auth.ts';
import { statuses } from '../../plugins/answers/error-handler.ts';
import { PasswordChange } from '../../schemas/sessions.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers } from '../base/access.ts';
import { faultsOf, field, fieldsOf, formFaults, queryOf, text, type Faults, type Fields } from '../base/forms.ts';
import { html, notice, type Html } from '../base/html.ts';
import { form, goTo, sendPage } from '../base/layout.ts';

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
      const faults: Faults = { ...repeatedFault(fields), ...faultsOf(check, body) };
      if (!faults['new_password'] && body.new_password === body.current_password)
        faults['new_password'] = 'This is the current password. Choose another one.';
      if (Object.keys(faults).length > 0) return show(request, reply, faults, 400);
      const session = sessionOf(request);
      try {
        await attempts.run(request.address, session.email, () =>
          replacePassword(request.db, session, body, actorOf(request)),
        );
      } catch (error) {
        if (!(error instanceof Unauthorized)) throw error;
        request.log.info({ credential: error.credential, reason: error.reason }, 'refused');
        return show(request, reply, { current_password: 'This is not your password.' }, statuses.unauthorized);
      }
      return goTo(reply, `${path}?done=1`);
    },
  );
}

/** Returns the fault of a repeated password that differs from the new one. */
export const repeatedFault = (fields: Fields): Faults =>
  text(fields, 'repeated') === text(fields, 'new_password') ? {} : { repeated: 'This differs from the new password.' };

const passwordField = (faults: Faults, name: string, label: string, autocomplete: string, hint = ''): Html =>
  field(
    { name, label, hint, faults },
    (attributes) =>
      html`<input type="password" !${attributes} autocomplete="${autocomplete}" maxlength="1024" required />`,
  );

/** Returns the two fields for a new password. */
export const newPasswordFields = (faults: Faults): Html =>
  html`!${passwordField(faults, 'new_password', 'New password', 'new-password', '12 to 128 characters.')}
  !${passwordField(faults, 'repeated', 'New password, repeated', 'new-password')}`;

function show(request: FastifyRequest, reply: FastifyReply, faults: Faults = {}, status = 200): FastifyReply {
  const body = html`!${formFaults(faults, ['current_password', 'new_password', 'repeated'])}
    <input type="hidden" name="username" value="${sessionOf(request).email}" autocomplete="username" />
    !${passwordField(faults, 'current_password', 'Current password', 'current-password')} !${newPasswordFields(faults)}
    <button>Change the password</button>`;
  return sendPage(request, reply, {
    title: 'Password',
    section: path,
    status,
    body: html`!${queryOf(request)['done'] ? notice('Your password is changed. Your other sessions have ended.') : ''}
      <p class="lead">Changing it ends your other sessions. API keys go on working.</p>
      <div class="card narrow">!${form(request, reply, { action: path, body })}</div>`,
  });
}
