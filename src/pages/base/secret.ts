import type { FastifyReply, FastifyRequest } from 'fastify';
import { html, linkButton, type Html } from './html.ts';
import { sectionOf, sendPage } from './layout.ts';

export interface ShownSecret {
  title: string;
  lead: Html;
  label: string;
  value: string;
  /** Below the secret: what to do with it. */
  advice: Html;
  next: string;
}

/** The only kind of page that contains a secret. */
export function sendSecret(request: FastifyRequest, reply: FastifyReply, shown: ShownSecret): FastifyReply {
  const { title, lead, label, value, advice, next } = shown;
  return sendPage(request, reply, {
    title,
    body: html`<p class="lead">!${lead}</p>
      <div class="card">
        <label for="secret">${label}</label>
        <div class="secret">
          <input id="secret" class="mono" value="${value}" readonly autocomplete="off" spellcheck="false" data-secret />
          <button type="button" class="secondary outline" data-copy="secret" hidden>Copy</button>
        </div>
        <p class="quiet" data-copied role="status"></p>
        !${advice} !${linkButton('I have stored it', next, '', 'data-dismiss')}
      </div>`,
  });
}

/** For a form that issues a secret and was sent before, e.g. by reloading: it issued none now. */
export const sendIssuedBefore = (
  request: FastifyRequest,
  reply: FastifyReply,
  { what, advice }: { what: string; advice: string },
): FastifyReply =>
  sendPage(request, reply, {
    title: `This ${what} was issued already`,
    status: 409,
    body: html`<p class="lead">
        This form was sent before. It issued a ${what} then, and none now. A ${what} is shown only once: if you have not
        stored it, ${advice}
      </p>
      !${linkButton('Go back', sectionOf(request))}`,
  });
