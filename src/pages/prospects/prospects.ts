import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { countMatches, listProspects } from '../../catalog/prospects.ts';
import { sessionOf } from '../../plugins/credentials/auth.ts';
import { ProspectQuery, SuggestionQuery, textFields, type Prospect, type TextField } from '../../schemas/prospects.ts';
import { verificationStatuses } from '../../schemas/verification.ts';
import { findUnstorableText } from '../../text/unstorable.ts';
import { compile } from '../../validation/validator.ts';
import { DomainError, type Fault } from '../../errors.ts';
import { forMembers } from '../base/access.ts';
import { formMessage } from '../base/form-messages.ts';
import { formFaults, hidden, queryOf, select, text, tick } from '../base/forms.ts';
import { count, empty, html, linkButton, pager, table, type Column, type Html } from '../base/html.ts';
import { sendPage } from '../base/layout.ts';
import { verification, webLink } from '../base/values.ts';
import { prospectWords, verificationWords } from '../base/words.ts';
import {
  prospectAddress,
  prospectFiltersOf,
  prospectViewOfRequest,
  searched,
  section,
  type ProspectView,
} from './prospect-address.ts';
import { unlocking } from './unlock.ts';

const pageRows = 25;

/** The search in the catalog of prospects. */
export async function prospects(app: FastifyInstance): Promise<void> {
  await app.register(unlocking);
  const checkSuggestion = compile(SuggestionQuery);
  const check = compile(ProspectQuery);

  app.get('/prospects', forMembers, async (request, reply) => {
    const view = prospectViewOfRequest(request);
    const cursor = text(queryOf(request), 'cursor');
    const filters = await prospectFiltersOf(view);
    const query: ProspectQuery = {
      filters,
      all_contacts: view['all'] === '1',
      paginate: { limit: pageRows, ...(cursor ? { cursor } : {}) },
    };
    const faults = check.faultsOf(query, formMessage);
    if (faults.length > 0) return refuse(request, reply, view, faults);
    const { customerId } = request.caller;
    const services = servicesOf(request);
    const [page, { all, unlocked }] = await Promise.all([
      listProspects(services, customerId, query),
      countMatches(services, customerId, filters),
    ]);
    const isAdmin = sessionOf(request).role === 'admin';
    return sendPage(request, reply, {
      title: 'Prospects',
      section,
      body: html`<p class="lead">
          People you do not know yet. E-mail addresses and phone numbers show once you unlock them.
        </p>
        !${filterForm(view)} !${heading(all, unlocked)}
        !${page.rows.length === 0 ? none(view, all) : results(page.rows, view, all - unlocked, isAdmin)}
        !${pager(
          {
            newer: cursor ? prospectAddress(section, view) : undefined,
            older: page.nextCursor && prospectAddress(section, view, { cursor: page.nextCursor }),
          },
          { newer: 'First page', older: 'Next page' },
        )}`,
    });
  });

  // Suggestions for one field: a page with links, from which the script also takes the values while one types.
  app.get('/prospects/suggest', forMembers, async (request, reply) => {
    const view = prospectViewOfRequest(request);
    const source = textFields.find((one) => one === text(queryOf(request), 'source'));
    if (!source) throw new DomainError('not_found', 'There is no such page');
    const body = { source, search: text(queryOf(request), 'q').slice(0, 100) };
    const isAsked = findUnstorableText(body).length === 0 && checkSuggestion.isValid(body);
    const found = isAsked ? await request.catalog.suggest(body) : [];
    const links = found.map(
      ({ value }) =>
        html`<li><a href="${prospectAddress(section, { ...view, [source]: value })}" data-value>${value}</a></li>`,
    );
    return sendPage(request, reply, {
      title: `Suggestions: ${prospectWords[source]}`,
      section,
      body: html`<form class="filters" method="get" action="${section}/suggest">
          !${hidden({ ...view, source })}
          <label>Begins with <input type="search" name="q" value="${body.search}" maxlength="100" /></label>
          <div class="filter-buttons">
            <button class="secondary">Show</button>
            <a href="${prospectAddress(section, view)}">Back</a>
          </div>
        </form>
        !${
          links.length === 0
            ? empty('Nothing begins so', 'Try fewer letters.', '', 'search')
            : html`<ul>
                !${links}
              </ul>`
        }`,
    });
  });
}

export const servicesOf = ({ server, db, catalog }: FastifyRequest) => ({ config: server.config, db, catalog });

function filterForm(view: ProspectView): Html {
  return html`<search>
    <form class="filters" method="get" action="${section}">
      !${searched.map((name) => textControl(name, view))}
      <label
        >${prospectWords.verification_status}
        !${select(
          'name="status"',
          [['', 'any'], ...verificationStatuses.map((one) => [one, verificationWords[one].word] as const)],
          view['status'] ?? '',
        )}
      </label>
      <label
        >${prospectWords.score}, at least
        <input type="number" name="score" min="0" max="100" value="${view['score'] ?? ''}" />
      </label>
      <div class="checks">
        !${check('has_email', 'with e-mail', view)} !${check('has_phone', 'with phone', view)}
        !${check('all', 'unlocked ones too', view)}
      </div>
      <div class="filter-buttons">
        <button class="secondary">Search</button>
        !${Object.keys(view).length > 0 ? html`<a href="${section}">Clear</a>` : ''}
      </div>
    </form>
  </search>`;
}

const check = (name: string, label: string, view: ProspectView): Html =>
  tick('checkbox', [name, '1'], label, Boolean(view[name]));

/** Shows the search with what is wrong with it. */
function refuse(request: FastifyRequest, reply: FastifyReply, view: ProspectView, faults: readonly Fault[]) {
  const texts = faults.map(({ path, message }) => `${labelOf(path.split('/')[2])} ${message}.`);
  return sendPage(request, reply, {
    title: 'Prospects',
    section,
    status: 400,
    body: html`!${formFaults({ '': texts.join(' ') }, [])} !${filterForm(view)}`,
  });
}

const labelOf = (name = ''): string =>
  Object.hasOwn(prospectWords, name) ? prospectWords[name as keyof typeof prospectWords] : 'The search';

/** Returns a text field with suggestions: while one types, or behind a link without JavaScript. */
function textControl(name: TextField, view: ProspectView): Html {
  const { [name]: value = '', ...others } = view;
  const suggest = prospectAddress(`${section}/suggest`, others, { source: name });
  return html`<div class="suggested">
    <label
      >${prospectWords[name]}
      <input
        type="search"
        name="${name}"
        value="${value}"
        maxlength="256"
        autocomplete="off"
        data-suggest="${suggest}"
      />
    </label>
    <a href="${suggest}" data-no-script aria-label="Suggestions for ${prospectWords[name]}">Suggestions</a>
  </div>`;
}

const heading = (all: number, unlocked: number): Html =>
  html`<div class="above">
    <p><strong>${count(all)}</strong> match, of which you have unlocked <strong>${count(unlocked)}</strong></p>
  </div>`;

function results(rows: readonly Prospect[], view: ProspectView, locked: number, isAdmin: boolean): Html {
  const shown = table('Prospects', columns, rows);
  if (!isAdmin) return shown;
  return html`<form class="chooser" method="get" action="${section}/unlock" data-chooser>
    !${hidden(view)} !${shown}
    <div class="chosen">
      <label data-choose-page hidden><input type="checkbox" /> this page</label>
      <span data-chosen class="quiet" role="status"></span>
      <div class="buttons small">
        <button name="do" value="chosen">Unlock the chosen</button>
        <label class="first-n"
          >or the first
          <input type="number" name="number" min="1" max="10000" value="${Math.max(1, Math.min(25, locked))}" />
        </label>
        <button name="do" value="first" class="secondary outline">Unlock that many</button>
      </div>
    </div>
  </form>`;
}

const columns: readonly Column<Prospect>[] = [
  [
    'Name',
    (one) => {
      const name = `${one.first_name} ${one.last_name}`.trim() || 'Without a name';
      return html`<input type="checkbox" name="id" value="${one._id}" aria-label="Choose ${name}" />${name}`;
    },
    'chosen-first',
  ],
  [prospectWords.job_title, (one) => html`${one.job_title}`],
  [prospectWords.job_company_name, (one) => html`${one.job_company_name}`],
  ['Place', (one) => html`${[one.location_locality, one.location_country].filter(Boolean).join(', ')}`],
  [prospectWords.verification_status, (one) => verification(one.verification_status)],
  [prospectWords.work_email, (one) => html`<span class="short">${one.work_email}</span>`],
  [prospectWords.mobile_phone, (one) => html`${one.mobile_phone ?? ''}`],
  [prospectWords.profnet_url, (one) => webLink(one.profnet_url)],
];

function none(view: ProspectView, all: number): Html {
  if (all > 0)
    return empty('All of them are unlocked', 'Show the unlocked ones too, or search for others.', '', 'done');
  if (Object.keys(view).length === 0)
    return empty('The catalog is empty', 'Whoever runs this service loads people into it.', '', 'people');
  const clear = linkButton('Show all', section, 'secondary outline');
  return empty('Nobody matches', 'Take a filter away, or use the suggestions.', clear, 'search');
}
