import { plain, roleWords } from './words.ts';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { answerTo } from '../../plugins/error-handler.ts';
import { canonicalId } from '../../text/ids.ts';
import { doneNotice, form, formFaults, hidden } from './forms.ts';
import { queryText, withTokens, notSent, refusalOf, invalid, type Refused } from './requests.ts';
import { when, empty, table, bullets, link, linkButton, pathWith, html, buttons } from './html.ts';
import type { Html, Column } from './html.ts';
import { DomainError, forbidden, Unauthorized } from '../../errors.ts';
import { eventNouns } from '../../schemas/events.ts';
import { sessionCookies } from '../../plugins/auth.ts';

// Options of the routes of pages: who may open them. The OpenAPI document does not describe pages.

/** Maximum number of records that a member can delete at once, by an undo too. Admins can delete more. */
export const memberDeletes = 100;

const accessOf = <const Access>(access: Access) => ({ schema: { hide: true }, config: { access } }) as const;

export const forMembers = accessOf({ page: 'member' });
export const forAdmins = accessOf({ page: 'admin' });
export const forAll = accessOf({ public: true });

export type PageAccess = typeof forMembers | typeof forAdmins | typeof forAll;

const pico = readFileSync(createRequire(import.meta.url).resolve('@picocss/pico/css/pico.min.css'), 'utf8');

const read = (name: string): string => readFileSync(new URL(name, import.meta.url), 'utf8');

const assetOf = (type: string, content: string) => ({
  type: `${type}; charset=utf-8`,
  content,
  packed: gzipSync(content, { level: 9 }),
  version: createHash('sha256').update(content).digest('hex').slice(0, 12),
});

const files = {
  // Pico is in a layer, so that our rules win over its rules, however specific those are.
  'style.css': assetOf('text/css', `@layer pico{${pico.replace('@charset "UTF-8";', '')}}\n${read('./style.css')}`),
  'pages.js': assetOf('text/javascript', read('./pages.js')),
};

/** Returns the URL of a file. It contains a hash of the file, so browsers can cache the file forever. */
const assetUrl = (name: keyof typeof files): string => `/app/files/${name}?v=${files[name].version}`;

export async function assets(app: FastifyInstance): Promise<void> {
  for (const [name, { type, content, packed, version }] of Object.entries(files))
    app.get(`/files/${name}`, forAll, async (request, reply) => {
      // While releases are replaced, a page of the other release may ask for its own file.
      const isOwn = (request.query as { v?: unknown }).v === version;
      const isPacked = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
      if (isPacked) void reply.header('content-encoding', 'gzip');
      return reply
        .type(type)
        .header('vary', 'accept-encoding')
        .header('cache-control', isOwn ? 'public, max-age=31536000, immutable' : 'public, max-age=0')
        .send(isPacked ? packed : content);
    });
}

export interface Page {
  title: string;
  body: Html;
  /**
   * Messages by the value of the query parameter `done`, which names the last action, in addition to the usual ones. The
   * fitting one stands above the body. A text is the message itself.
   */
  done?: Readonly<Record<string, string>> | Html;
  lead?: Html;
  actions?: Html;
  /** Path of the navigation entry to highlight. Default: the first part of the page's path. */
  section?: string;
  /**
   * True if the page shows a running job or import. A script then updates its `data-live` element every few seconds.
   * Without JavaScript, the browser reloads the page.
   */
  isLive?: boolean;
  status?: number;
}

/** Labels of the navigation in groups, by the first part of the path of their pages. */
const sections = [
  { '': 'Today', activities: 'Tasks' },
  labelled('contacts', 'companies', 'lists', 'opportunities', 'products', 'prospects'),
  labelled('imports', 'duplicates', 'jobs', 'deleted', 'credits'),
  { keys: 'API keys' },
];

const sectionsOfAdmins = { ...labelled('fields', 'webhooks', 'users', 'pipelines'), audit: 'Audit log' };

function labelled(...names: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name, plain(name)]));
}

/** Sends a page. Browsers must not store it, because it contains data of one user. */
const sendPage = (request: FastifyRequest, reply: FastifyReply, page: Page): FastifyReply =>
  reply
    .code(page.status ?? 200)
    .type('text/html; charset=utf-8')
    .header('cache-control', 'no-store')
    .send(withTokens(request, reply, documentOf(request, page)));

/** Maximum length of the address of a redirect (characters). Proxies and clients can reject longer headers. */
const maxLocation = 8_000;

function goTo(reply: FastifyReply, path: string): FastifyReply {
  // Without its query, the page would show more than was asked for.
  if (path.length > maxLocation) throw invalid('this is too much for one address');
  return reply.redirect(path, 303);
}

/** Result of a request: a page, or the path of a redirect. */
export type Answer = Page | string;

type Act = (request: FastifyRequest, reply: FastifyReply) => Answer | Promise<Answer>;

const handlerOf = (act: Act) => async (request: FastifyRequest, reply: FastifyReply) => {
  const answer = await act(request, reply);
  return typeof answer === 'string' ? goTo(reply, answer) : sendPage(request, reply, answer);
};

export function addPage(app: FastifyInstance, path: string, access: PageAccess, show: Act): void {
  app.get(path, access, handlerOf(show));
}

export function addAction(app: FastifyInstance, path: string, access: PageAccess, act: Act): void {
  app.post(path, access, handlerOf(act));
}

interface List<Row> extends Omit<Page, 'body'> {
  label?: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** What stands there without rows. The button that adds one is in it then, and else beside the title. */
  none?: Parameters<typeof empty>;
  add?: Html;
  above?: Html;
  below?: Html;
}

export function listPage<Row>(list: List<Row>): Page {
  const { label, columns, rows, none, add = '', above = '', below = '', ...page } = list;
  const [title, text, picture, button = add] = none ?? ['', ''];
  const shown = table(label ?? page.title, columns, rows, none && empty(title, text, picture, button));
  return { actions: when(!none || rows.length > 0, add), ...page, body: html`!${above} !${shown} !${below}` };
}

export interface FormPage extends Pick<Page, 'title' | 'section' | 'done' | 'lead'> {
  /** Address to which the form is sent. Default: the page's address without its query. */
  action?: string;
  body: Html;
  attributes?: Html;
  above?: Html;
  isNarrow?: true;
  /** Faults of the address, such as an invalid number. The form shows them before it is sent. */
  refused?: Refused | undefined;
}

export function formPage(request: FastifyRequest, asked: FormPage, given = notSent): Page {
  const { action = urlOf(request).split('?')[0]!, body, attributes, above = '', isNarrow, refused, ...page } = asked;
  const { faults, status } = refused ?? given;
  const shown = form(action, html`!${formFaults(faults, body)} !${body}`, attributes);
  const framed = isNarrow ? html`<div class="card narrow">!${shown}</div>` : shown;
  return { ...page, status, body: html`!${above} !${framed}` };
}

/** Returns the path and query of a request, with its ids in lower case. */
export const urlOf = ({ url }: FastifyRequest): string =>
  url.replaceAll(/[0-9a-f-]{36}/gi, (id) => canonicalId(id) ?? id);

function documentOf(request: FastifyRequest, page: Page): Html {
  const { title, body, done, lead = '', actions = '', isLive = false } = page;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>${title} · Sales Data API</title>
        <meta name="description" content="Contacts, companies and opportunities of your team" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${assetUrl('style.css')}" />
        <script type="module" src="${assetUrl('pages.js')}"></script>
        !${isLive ? html`<noscript><meta http-equiv="refresh" content="5" /></noscript>` : ''}
      </head>
      <body>
        <a class="skip" href="#content">Skip to the content</a>
        !${request.caller?.kind === 'session' ? sidebar(request, page) : ''}
        <main id="content" tabindex="-1" !${request.caller ? '' : 'class="alone"'}>
          !${request.caller ? '' : html`<p class="brand">Sales Data</p>`}
          <div class="heading row apart">
            <div>
              <h1>${title}</h1>
              !${lead === '' ? '' : html`<p class="head">!${lead}</p>`}
            </div>
            <div class="row">!${actions}</div>
          </div>
          !${typeof done === 'string' ? done : doneNotice(request, done)} !${body}
        </main>
      </body>
    </html>`;
}

/**
 * Returns a path with a query parameter that names the changes of this request. The message of the page there, which
 * `done` names, offers to undo them.
 */
export const withUndo = (request: FastifyRequest, path: string): string =>
  pathWith(path, { change: request.requester.changeId });

/** Returns the path of the page of a job that a form has started. If the form was sent before, it started none. */
export const jobPath = (job: { id: string } | undefined, query: Record<string, string | undefined> = {}): string =>
  job ? pathWith(`/app/jobs/${job.id}`, query) : '/app/jobs?done=sent';

const sectionOf = ({ url }: FastifyRequest): string => /^\/app(?:\/[^/?]+)?/.exec(url)?.[0] ?? '';

function sidebar(request: FastifyRequest, { section = sectionOf(request) }: Page): Html {
  const { caller } = request;
  if (caller.kind !== 'session') return '';
  const entry = ([name, label]: readonly [name: string, label: string]): Html => {
    const path = name === '' ? '/app' : `/app/${name}`;
    return html`<a href="${path}" !${when(path === section, 'aria-current="page"')}>${label}</a>`;
  };
  const searched = sectionOf(request) === '/app/search' ? queryText(request, 'search') : '';
  const last = { ...sections.at(-1), ...(caller.role === 'admin' && sectionsOfAdmins) };
  const groups = [...sections.slice(0, -1), last].map((group) => Object.entries(group).map(entry).join(''));
  return html`<header class="sidebar">
    <button type="button" class="menu secondary outline" popovertarget="menu">Menu</button>
    <a class="brand" href="/app">Sales Data</a>
    <form class="find" method="get" action="/app/search">
      <input type="search" name="search" value="${searched}" maxlength="256" !${find} /> !${hidden({ find: '1' })}
    </form>
    <nav id="menu" aria-label="Main" popover>!${groups.join('<hr />')}</nav>
    <div class="account row">
      <p>
        <span class="email">${caller.email}</span>
        <span class="quiet">${roleWords[caller.role].word}</span>
      </p>
      !${entry(['password', 'Password'])} !${form('/app/logout', '<button class="link">Log out</button>')}
    </div>
  </header>`;
}

const find =
  'placeholder="Find" aria-label="Find" autocomplete="off" data-suggest="/app/search" data-parameter="search"';

interface FormRoutes {
  /** Path to which the form is sent. Default: the path of its page. */
  sentTo?: string;
  show: (request: FastifyRequest, refused: Refused) => FormPage | string | Promise<FormPage | string>;
  /** Performs the action of the form. If it throws an error about the form's values, the form is shown again. */
  act: (request: FastifyRequest, reply: FastifyReply) => Promise<Answer | Refused>;
  guard?: (request: FastifyRequest) => Promise<void>;
}

export function formRoutes(app: FastifyInstance, path: string, access: PageAccess, routes: FormRoutes): void {
  const { sentTo = path, show, act, guard } = routes;
  const ask = async (request: FastifyRequest, refused = notSent) => {
    const page = await show(request, refused);
    return typeof page === 'string' ? page : formPage(request, page, refused);
  };
  addPage(app, path, access, (request) => ask(request));
  addAction(app, sentTo, { ...access, ...(guard && { onRequest: guard }) }, async (request, reply) => {
    const outcome = await act(request, reply).catch(refusalOf);
    return typeof outcome === 'object' && 'faults' in outcome ? ask(request, outcome) : outcome;
  });
}

interface Question<Row> {
  title: string | ((row: Row) => string);
  section?: (row: Row) => string;
  /** Returns the record that the question is about, or the path of a redirect. */
  about: (request: FastifyRequest) => Promise<Row | string>;
  text: (row: Row, request: FastifyRequest) => Html | Promise<Html>;
  /** Returns the path to which the refusal leads. Default: the list of records. */
  back?: (row: Row, request: FastifyRequest) => string;
  refusal?: string;
  tone?: '' | 'danger';
  /** Returns true if nothing can be done. Then the page has no button for it. */
  isVain?: (row: Row) => boolean;
  /** Returns the record's version. The form sends it back, to detect changes by others. */
  etag?: (row: Row) => string;
  act: (request: FastifyRequest, row: Row) => Promise<Answer | Refused>;
}

/** Adds a page that asks the user to confirm an action on a record. */
export function question<Row extends object>(app: FastifyInstance, path: string, access: PageAccess, q: Question<Row>) {
  const { title, section, about, text, back, refusal = 'Leave it as it is', tone = 'danger', isVain, etag, act } = q;
  const show = async (request: FastifyRequest): Promise<FormPage | string> => {
    const row = await about(request);
    if (typeof row === 'string') return row;
    const shown = typeof title === 'string' ? title : title(row);
    const closes = tone === 'danger' ? 'data-close autofocus' : 'data-close';
    const left = back?.(row, request) ?? sectionOf(request);
    return {
      title: shown,
      ...(section && { section: section(row) }),
      action: urlOf(request),
      body: html`!${etag ? hidden({ etag: etag(row) }) : ''}
        <div>!${await text(row, request)}</div>
        !${isVain?.(row) ? linkButton('Close', left, '', 'data-close') : buttons(shown, left, refusal, { tone, closes })}`,
      attributes: 'data-once',
      isNarrow: true,
    };
  };
  formRoutes(app, path, access, {
    show,
    act: async (request) => {
      const row = await about(request);
      return typeof row === 'string' ? row : act(request, row);
    },
  });
}

/** Sends an HTML page for an error. Redirects to the login page if the session is not valid. */
export function errorPage(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (thrown instanceof Unauthorized && thrown.credential === 'session') return sendToLogin(thrown, request, reply);
  const { status, message, faults = [] } = answerTo(thrown, request, reply);
  const title = titles[status] ?? (status < 500 ? 'This did not work' : 'The service cannot answer now');
  const noun = thrown instanceof DomainError ? thrown.noun : undefined;
  const isRecord = eventNouns.some((one) => one === noun);
  const isAddress =
    request.method === 'GET' && faults.some(({ path }) => /^\/(filters|paginate|order_by)\b/.test(path));
  const open = status === 403 ? sections : [sectionsOfAdmins, ...sections];
  const names = new Map(open.flatMap((group) => Object.entries(group)));
  const section = names.get(sectionOf(request).split('/')[2] ?? '');
  const texts: Readonly<Record<string, string>> = {
    404: 'It may have been deleted, or the link is wrong',
    ...(isAddress && { 400: 'Something in this link is not valid, such as a filter' }),
    ...(message === forbidden().message && { 403: 'Only an admin may do this. Ask one of yours' }),
  };
  return sendPage(request, reply, {
    title: noun ? `This ${noun} does not exist` : title,
    status,
    body: html`<p>${`${texts[status] ?? message}.`.replace('..', '.')}</p>
      !${when(faults.length > 1 && !isAddress, bullets(faults.map((fault) => html`${fault.message}`)))}
      !${when(isRecord, '<p>What was deleted can be restored under <a href="/app/deleted">Deleted</a>.</p>')}
      <p>!${when(section, html`!${link(`Back to ${section}`, sectionOf(request))} · `)}!${link('Today', '/app')}</p>
      <p class="quiet"><small>Status ${status} · Request ${request.id}</small></p>`,
  });
}

const titles: Record<number, string> = {
  403: 'This is not allowed',
  404: 'This page does not exist',
  405: 'This is not possible here',
  413: 'This is too large',
  429: 'Too many requests',
};

function sendToLogin({ reason }: Unauthorized, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  request.log.info({ credential: 'session', reason }, 'sent to the login');
  const place = placeOf(request);
  const isKept = place !== '/app' && encodeURIComponent(place).length < maxLocation - 100;
  const hasEnded = reason !== 'missing';
  if (hasEnded) {
    const { session, attributes } = sessionCookies(request.server.config);
    void reply.clearCookie(session, attributes);
  }
  const path = pathWith('/app/login', { next: when(isKept, place), ended: when(hasEnded, '1') });
  return goTo(reply.header('cache-control', 'no-store'), path);
}

function placeOf({ method, url, headers: { referer } }: FastifyRequest): string {
  if (method === 'GET' || method === 'HEAD') return ownPath(url);
  return URL.canParse(referer ?? '') ? ownPath(pathOf(new URL(referer!))) : '/app';
}

const pathOf = ({ pathname, search }: URL): string => pathname + search;

/**
 * Returns a path if it belongs to these pages, else `/app`. Prevents manipulated links from redirecting to other sites.
 */
export function ownPath(path: string): string {
  const base = 'http://pages.invalid';
  const url = URL.parse(path, base);
  const isOwn = url?.origin === base && /^\/app(\/(?!(login|logout)$)|$)/.test(url.pathname);
  return isOwn ? pathOf(url) : '/app';
}

export function backPath(request: FastifyRequest, usual: string): string {
  const back = queryText(request, 'back');
  return back === '' ? usual : ownPath(back);
}

interface Secret {
  title: string;
  lead: Html;
  label: string;
  value: string;
  advice: Html;
  next?: string;
  /** Label of the button that leaves the page. */
  leave?: string;
}

/**
 * Returns the page that shows a new secret once. A form that was sent again, e.g. by reloading, issues none: then the
 * page says so.
 * @param what what was issued, and what to do if it is lost
 */
export function secretPage<T>(
  request: FastifyRequest,
  issued: T | undefined,
  [what, remedy]: readonly [what: string, remedy: string],
  show: (issued: T) => Secret,
): Page {
  const back = sectionOf(request);
  if (!issued) {
    const text = `This form was sent before. It issued a ${what} then, and none now. A ${what} is shown only once: if you have not stored it, ${remedy}`;
    const body = html`<p class="lead">${text}</p>
      !${linkButton('Go back', back)}`;
    return { title: `This ${what} was issued already`, status: 409, body };
  }
  const { title, lead, label, value, advice, next = back, leave = 'I have stored it' } = show(issued);
  return {
    title,
    lead,
    body: html`<div class="card">
      <label for="secret">${label}</label>
      <div role="group">
        <input id="secret" value="${value}" readonly autocomplete="off" spellcheck="false" data-secret />
        <button type="button" class="secondary outline" data-copy="secret" hidden>Copy</button>
      </div>
      <p class="quiet" data-copied role="status"></p>
      !${advice}
      <p class="row">!${linkButton(leave, next, '', 'data-dismiss')}</p>
    </div>`,
  };
}
