import type { FastifyReply, FastifyRequest } from 'fastify';
import { Unauthorized } from '../../errors.ts';
import { answerTo } from '../../plugins/answers/error-handler.ts';
import { sessionCookies } from '../../plugins/credentials/session-cookie.ts';
import { html } from './html.ts';
import { goTo, sendPage } from './layout.ts';

/** Sends an HTML page for an error. Without a valid session, redirects to the login page. */
export function errorPage(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (thrown instanceof Unauthorized && thrown.credential === 'session') return sendToLogin(thrown, request, reply);
  const { status, message, faults = [] } = answerTo(thrown, request, reply);
  return sendPage(request, reply, {
    title: titles[status] ?? (status < 500 ? 'This did not work' : 'The service cannot answer now'),
    status,
    body: html`<p>
        ${status === 404 ? 'It may have been removed, or the link is wrong.' : `${message}.`.replace('..', '.')}
      </p>
      !${
        faults.length > 1
          ? html`<ul>
              !${faults.map((fault) => html`<li>${fault.message}</li>`)}
            </ul>`
          : ''
      }
      <p><a href="/app">Go to the start</a></p>
      <p class="quiet">Status ${status} · Request ${request.id}</p>`,
  });
}

const titles: Record<number, string> = {
  403: 'This is not allowed',
  404: 'This page does not exist',
  405: 'This is not possible here',
  413: 'This is too large',
  429: 'Too many requests',
};

/** After the login, the user returns to the page of this request. */
function sendToLogin({ reason }: Unauthorized, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  request.log.info({ credential: 'session', reason }, 'sent to the login');
  const query = new URLSearchParams();
  const place = placeOf(request);
  if (place !== '/app') query.set('next', place);
  if (reason !== 'missing') {
    const { session, attributes } = sessionCookies(request.server.config);
    void reply.clearCookie(session, attributes);
    query.set('ended', '1');
  }
  return goTo(reply.header('cache-control', 'no-store'), `/app/login${query.size > 0 ? `?${query.toString()}` : ''}`);
}

/** Returns the path of the requested page or, for a sent form, of the page with the form. */
function placeOf({ method, url, headers: { referer } }: FastifyRequest): string {
  if (method === 'GET' || method === 'HEAD') return ownPath(url);
  return URL.canParse(referer ?? '') ? ownPath(pathOf(new URL(referer!))) : '/app';
}

const pathOf = ({ pathname, search }: URL): string => pathname + search;

/**
 * Returns the path if it is one of these pages, else `/app`. So a manipulated link cannot redirect to another site
 * after the login.
 */
export function ownPath(path: string): string {
  const base = 'http://pages.invalid';
  if (!URL.canParse(path, base)) return '/app';
  const url = new URL(path, base);
  const isOwn =
    url.origin === base && /^\/app(\/|$)/.test(url.pathname) && !/^\/app\/(login|logout)$/.test(url.pathname);
  return isOwn ? pathOf(url) : '/app';
}
