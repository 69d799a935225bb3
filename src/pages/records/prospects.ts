import type { FastifyInstance, FastifyRequest } from 'fastify';
import { countMatches, listProspects } from '../../catalog/prospects.ts';
import { ProspectQuery, SuggestionQuery, textFields, type Prospect, type TextField } from '../../schemas/prospects.ts';
import { verificationStatuses } from '../../schemas/verification.ts';
import { findUnstorableText } from '../../text/json.ts';
import { compile } from '../../validation/validator.ts';
import { DomainError, type Fault } from '../../errors.ts';
import { forMembers, forAdmins, addPage, formRoutes, type Page, type FormPage } from '../base/layout.ts';
import { cursorPager, formFaults, select, tick, hidden } from '../base/forms.ts';
import { once, payerOf, fieldsOf, givenIn, text, idsIn, integer, isAdmin, queryText } from '../base/requests.ts';
import type { Fields } from '../base/requests.ts';
import { formMessage, type Refused } from '../base/refusals.ts';
import { when, empty, table, pathWith, linkButton, html, type Html, type Column } from '../base/html.ts';
import { count, counted } from '../base/values.ts';
import { prospectWords, verificationWords, verification, webLink, priceOf } from '../base/words.ts';
import { prospectFiltersOf, prospectViewOfRequest, searched, section, prospectViewOf } from './record-kind.ts';
import type { ProspectView } from './record-kind.ts';
import { spenderOf } from '../../access/credentials.ts';
import { estimateOf, startJob } from '../../jobs/start-job.ts';
import { findChosen, findChosenIfUp, searchOf, planSelectedUnlock, planUnlock } from '../../jobs/unlocks.ts';
import { UnlockContacts, UnlockSelectedContacts } from '../../schemas/jobs.ts';
import { chosenList, listControls, namesList } from './chosen.ts';
import { chooserBox, chooserForm, pageRows } from './record-list.ts';

export async function prospects(app: FastifyInstance): Promise<void> {
  await app.register(unlocking);
  const checkSuggestion = compile(SuggestionQuery);
  const check = compile(ProspectQuery);

  addPage(app, '/prospects', forMembers, async (request) => {
    const view = prospectViewOfRequest(request);
    const cursor = queryText(request, 'cursor');
    const filters = await prospectFiltersOf(view);
    const paginate = { limit: pageRows, ...(cursor ? { cursor } : {}) } as const;
    const query: ProspectQuery = { filters, all_contacts: view['all'] === '1', paginate };
    const faults = check.faultsOf(query, formMessage);
    if (faults.length > 0) return refuse(view, faults);
    const { customerId } = request.caller;
    const services = { config: app.config, db: request.db, catalog: request.catalog };
    const [page, { all, unlocked }] = await Promise.all([
      listProspects(services, customerId, query),
      countMatches(services, customerId, filters),
    ]);
    return {
      title: 'Prospects',
      body: html`<p class="lead">
          People you do not know yet. ${isAdmin(request) ? 'Unlock them' : 'An admin can unlock them'} to see their
          addresses and phones.
        </p>
        !${filterForm(view)} !${heading(all, unlocked)}
        !${page.rows.length === 0 ? none(view, all) : results(page.rows, view, all - unlocked, isAdmin(request))}
        !${cursorPager(request, page.nextCursor)}`,
    };
  });

  // Suggestions for one field: a page with links, from which the script also takes the values while one types.
  addPage(app, '/prospects/suggest', forMembers, async (request) => {
    const view = prospectViewOfRequest(request);
    const source = textFields.find((one) => one === queryText(request, 'source'));
    if (!source) throw new DomainError('not_found', 'There is no such page');
    const body = { source, search: queryText(request, 'q').slice(0, 100) };
    const isAsked = findUnstorableText(body).length === 0 && checkSuggestion.isValid(body);
    const found = isAsked ? await request.catalog.suggest(body) : [];
    const links = found.map(
      ({ value }) =>
        html`<li><a href="${pathWith(section, { ...view, [source]: value })}" data-value>${value}</a></li>`,
    );
    return {
      title: `Suggestions: ${prospectWords[source]}`,
      body: html`<form class="filters" method="get" action="${section}/suggest">
          !${hidden({ ...view, source })}
          <label>Begins with <input type="search" name="q" value="${body.search}" maxlength="100" /></label>
          <button class="secondary outline">Show</button>
          !${linkButton('Back', pathWith(section, view), 'secondary outline')}
        </form>
        !${
          links.length === 0
            ? empty('Nothing begins so', 'Try fewer letters.')
            : html`<ul>
                !${links}
              </ul>`
        }`,
    };
  });
}

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
      !${check('has_email', 'with e-mail', view)} !${check('has_phone', 'with phone', view)}
      !${check('all', 'also unlocked ones', view)}
      <button class="secondary outline">Search</button>
      !${when(Object.keys(view).length > 0, linkButton('Clear', section, 'secondary outline'))}
    </form>
  </search>`;
}

const check = (name: string, label: string, view: ProspectView): Html =>
  tick('checkbox', [name, '1'], label, Boolean(view[name]));

function refuse(view: ProspectView, faults: readonly Fault[]): Page {
  const texts = faults.map(({ path, message }) => `${labelOf(path.split('/')[2])} ${message}.`);
  return { title: 'Prospects', status: 400, body: html`!${formFaults({ '': texts.join(' ') })} !${filterForm(view)}` };
}

const labelOf = (name = ''): string =>
  Object.hasOwn(prospectWords, name) ? prospectWords[name as keyof typeof prospectWords] : 'The search';

/** Returns a text input with suggestions while the user types. Without JavaScript, a link leads to the suggestions. */
function textControl(name: TextField, view: ProspectView): Html {
  const { [name]: value = '', ...others } = view;
  const suggest = pathWith(`${section}/suggest`, { ...others, source: name });
  return html`<label
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
    <noscript><a href="${suggest}" aria-label="Suggestions for ${prospectWords[name]}">Suggestions</a></noscript>`;
}

const heading = (all: number, unlocked: number): Html =>
  html`<p><strong>${count(all)}</strong> match, of which you have unlocked <strong>${count(unlocked)}</strong></p>`;

function results(rows: readonly Prospect[], view: ProspectView, locked: number, isAdmin: boolean): Html {
  const shown = table('Prospects', columnsFor(isAdmin), rows);
  if (!isAdmin) return html`<div class="rows">!${shown}</div>`;
  return chooserForm(
    `${section}/unlock`,
    html`!${hidden(view)} !${shown}`,
    '<button name="do" value="chosen">Unlock the chosen</button>',
    html`<label
        >The first
        <input type="number" name="number" min="1" max="10000" value="${Math.max(1, Math.min(25, locked))}" />
      </label>
      <button name="do" value="first" class="secondary outline">Unlock that many</button>`,
  );
}

function nameCell({ _id: id, first_name, last_name }: Prospect, canChoose: boolean): Html {
  const name = `${first_name} ${last_name}`.trim() || 'Without a name';
  return canChoose ? html`!${chooserBox(id, name)}${name}` : html`${name}`;
}

const columnsFor = (canChoose: boolean): readonly Column<Prospect>[] => [
  ['Name', (one) => nameCell(one, canChoose), canChoose ? 'chosen-first' : 'row'],
  [prospectWords.job_title, (one) => html`${one.job_title}`],
  [prospectWords.job_company_name, (one) => html`${one.job_company_name}`],
  ['Place', (one) => html`${[one.location_locality, one.location_country].filter(Boolean).join(', ')}`],
  [prospectWords.verification_status, (one) => verification(one.verification_status)],
  [prospectWords.work_email, (one) => html`${one.work_email}`],
  [prospectWords.mobile_phone, (one) => html`${one.mobile_phone ?? ''}`],
  [prospectWords.profnet_url, (one) => webLink(one.profnet_url)],
];

function none(view: ProspectView, all: number): Html {
  if (all > 0) return empty('All of them are unlocked', 'Show the unlocked ones too, or search for others.', 'done');
  if (Object.keys(view).length === 0)
    return empty('The catalog is empty', 'Whoever runs this service loads people into it.', 'people');
  const clear = linkButton('Show all', section, 'secondary outline');
  return empty('Nobody matches', 'Take a filter away, or use the suggestions.', 'search', clear);
}

const maxChosen = UnlockSelectedContacts.properties.ids.maxItems as number;

export async function unlocking(app: FastifyInstance): Promise<void> {
  const checkFirst = compile(UnlockContacts);
  const checkChosen = compile(UnlockSelectedContacts);

  formRoutes(app, '/prospects/unlock', forAdmins, {
    show: ask,
    act: async (request) => {
      const { caller, catalog } = request;
      const fields = fieldsOf(request);
      const { first, chosen } = await bodiesOf(fields);
      const fault = faultOf({ first, chosen });
      if (fault) return fault;
      const matches = first ? await catalog.count(searchOf(caller.customerId, first)) : 0;
      const known = chosen ? await findChosenIfUp(catalog, chosen.ids) : [];
      const payer = payerOf(request);
      const job = await once(request, async (sql) => {
        const list = namesList(fields) ? await chosenList(request, sql, 'PROSPECT') : undefined;
        const lists = list === undefined ? {} : { list_ids: [list] };
        const plan = first
          ? await planUnlock(sql, payer, app.config, { ...first, ...lists }, matches)
          : await planSelectedUnlock(sql, payer, app.config, { ...chosen!, ...lists }, known);
        const { id } = await startJob(sql, payer, plan);
        return `${id}${list === undefined ? '' : `?list=${list}`}`;
      });
      return job ? `/app/jobs/${job}` : '/app/jobs?done=sent';
    },
  });

  function faultOf({ first, chosen }: Bodies): Refused | undefined {
    if (first ? checkFirst.isValid(first) : checkChosen.isValid(chosen)) return undefined;
    const isNumber =
      Number.isInteger(first?.total_records) && first!.total_records >= 1 && first!.total_records <= 10_000;
    const text = isNumber ? 'Search for less: a filter has too many values.' : 'Give a number from 1 to 10,000.';
    return { faults: { '': first ? text : 'Choose some prospects first.' }, status: 400 };
  }

  async function ask(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
    const fields = givenIn(request);
    const view = prospectViewOf(fields);
    const { first, chosen } = await bodiesOf(fields);
    const fault = faultOf({ first, chosen });
    const price = fault ? undefined : await estimate(request, { first, chosen });
    const makesContacts = request.method !== 'POST' || (first ?? chosen)!.sync_crm === true;
    const number = first ? Math.min(first.total_records, price?.matches ?? 0) : (price?.matches ?? 0);
    const kept = { ...view, do: text(fields, 'do'), number: text(fields, 'number'), id: chosen?.ids ?? [] };
    const controls = async (price: Parameters<typeof priceOf>[0]) =>
      html`<p>Unlocks ${counted(number, 'prospect')}. Those that were unlocked before cost nothing.</p>
        !${priceOf(price)} !${tick('checkbox', ['sync_crm', '1'], 'Make contacts of them', makesContacts)}
        !${await listControls(request, faults, 'no list')}`;
    return {
      title: 'Unlock prospects',
      refused: fault,
      body: html`!${hidden(kept)} !${price ? await controls(price) : ''}
        <div class="buttons">
          !${when(price && number > 0 && price.cost <= price.available, '<button>Unlock now</button>')}
          !${linkButton('Back', pathWith(section, view), 'secondary outline')}
        </div>`,
      attributes: 'data-once',
      isNarrow: true,
    };
  }

  async function estimate({ db, caller, catalog }: FastifyRequest, { first, chosen }: Bodies) {
    const matches = first ? await catalog.count(searchOf(caller.customerId, first)) : 0;
    const known = chosen ? await findChosen(catalog, chosen.ids) : [];
    const spender = spenderOf(caller);
    return db.transaction(async (sql) => {
      const plan = first
        ? await planUnlock(sql, spender, app.config, first, matches)
        : await planSelectedUnlock(sql, spender, app.config, chosen!, known);
      return estimateOf(sql, spender, plan);
    });
  }
}

interface Bodies {
  first?: UnlockContacts | undefined;
  chosen?: UnlockSelectedContacts | undefined;
}

async function bodiesOf(fields: Fields): Promise<Bodies> {
  const sync_crm = text(fields, 'sync_crm') === '1';
  if (text(fields, 'do') !== 'first') return { chosen: { ids: idsIn(fields, 'id', maxChosen), sync_crm } };
  const filters = await prospectFiltersOf(prospectViewOf(fields));
  return { first: { filters, total_records: integer(fields, 'number'), sync_crm } };
}
