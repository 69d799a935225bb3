import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { redeemLink, requireLink } from '../../accounts/users.ts';
import { Unauthorized } from '../../errors.ts';
import { LoginAttempts } from '../../limits/login-attempts.ts';
import { PasswordByLink } from '../../schemas/users.ts';
import { compile } from '../../validation/validator.ts';
import { forAll } from '../base/access.ts';
import { fieldsOf, hidden, refusalOf, requireValid, text, type Refused } from '../base/forms.ts';
import { html } from '../base/html.ts';
import { goTo, sendForm, sendPage } from '../base/layout.ts';
import { newPasswordFields, passwordFaults } from './password.ts';

/** The page to which a link of an admin leads: its user sets the password. Only the sent form uses the link up. */
export async function passwordLinks(app: FastifyInstance): Promise<void> {
  const attempts = new LoginAttempts(app.rateLimits);
  const check = compile(PasswordByLink);
  const limited = {
    ...forAll,
    onRequest: async ({ address }: FastifyRequest, reply: FastifyReply) => {
      void reply.header('referrer-policy', 'no-referrer'); // on error pages too: their files are asked for by a link
      await attempts.check(address);
    },
  };

  app.get('/link/:link', limited, async (request, reply) => show(request, reply, linkIn(request.params)));

  // The form does not name the link in its address, and the link's page tells no other where it is.
  app.post('/link', limited, async (request, reply) => {
    const fields = fieldsOf(request);
    const [link, password] = [text(fields, 'link'), text(fields, 'new_password')];
    try {
      requireValid(check, { new_password: password }, passwordFaults(fields));
      await attempts.run(request.address, 'link', () => redeemLink(request.db, link, password, request.address));
      return await goTo(reply, '/app/login?set=1');
    } catch (error) {
      if (error instanceof Unauthorized) return showEnded(request, reply, error);
      return show(request, reply, link, refusalOf(error));
    }
  });

  async function show(request: FastifyRequest, reply: FastifyReply, link: string, refused?: Refused) {
    try {
      const { user } = await attempts.run(request.address, 'link', () => requireLink(request.db, link));
      return sendForm(request, reply, {
        title: 'Set your password',
        lead: html`<p class="lead">For ${user.email}. You log in with it afterwards.</p>`,
        action: '/app/link',
        body: html`!${hidden({ link })}
          <input type="hidden" name="username" value="${user.email}" autocomplete="username" />
          !${newPasswordFields(refused?.faults ?? {})}
          <button>Set the password</button>`,
        fields: ['new_password', 'repeated'],
        refused,
      });
    } catch (error) {
      if (error instanceof Unauthorized) return showEnded(request, reply, error);
      throw error;
    }
  }
}

const linkIn = (params: unknown): string => (params as { link: string }).link;

function showEnded(request: FastifyRequest, reply: FastifyReply, { reason }: Unauthorized): FastifyReply {
  request.log.info({ credential: 'link', reason }, 'refused');
  return sendPage(request, reply, {
    title: 'This link does not work any more',
    status: 404,
    body: html`<p>It was used, or replaced by a newer one, or is too old. Ask an admin of your team for a new one.</p>
      <p><a href="/app/login">Log in</a></p>`,
  });
}
