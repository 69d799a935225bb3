import { verificationChoices, countryName, prospectWords, verification, priceOf, searchText } from '../base/words.ts';
import { filledIn, priceFor, queryOf, placeIn, once, payerOf, fieldsOf, givenIn, text } from '../base/requests.ts';
import { idsIn, integer, isAdmin, queryText, formMessage, type Fields, type Refused } from '../base/requests.ts';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { countryCodes } from '../../files/phones.ts';
import { fold } from '../../text/fold.ts';
import { ProspectQuery, SuggestionQuery, textFields } from '../../schemas/prospects.ts';
import type { ProspectFilters, Prospect, TextField } from '../../schemas/prospects.ts';
import { validationFailed, DomainError, type Fault } from '../../errors.ts';
import { countMatches, listProspects } from '../../catalog/prospects.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import { findUnstorableText } from '../../text/json.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers, forAdmins, addPage, formRoutes, jobPath, type Page, type FormPage } from '../base/layout.ts';
import { cursorPager, filters, formFaults, labelled, select, tick, hidden, textInput } from '../base/forms.ts';
import { when, empty, table, pathWith, linkButton, html, quiet, bullets, count, counted } from '../base/html.ts';
import type { Html, Column } from '../base/html.ts';
import { prepareJob } from '../../jobs/job-types.ts';
import { startJob } from '../../jobs/start-job.ts';
import { UnlockContacts, UnlockSelectedContacts } from '../../schemas/jobs.ts';
import { chosenList, listControls, namesList } from './records.ts';
import { chooserBox, chooserForm, pageRows } from './record-list.ts';

const section = '/app/prospects';

export async function prospects(app: FastifyInstance): Promise<void> {
  unlocking(app);

  addPage(app, '/prospects', forMembers, async (request) => {
    const view = viewOf(queryOf(request));
    const filters = await filtersOf(view);
    const paginate = { limit: pageRows, ...placeIn(request) } as const;
    const query: ProspectQuery = { filters, all_contacts: view['all'] === '1', paginate };
    const faults = compile(ProspectQuery).faultsOf(query, formMessage);
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
        !${filterForm(view)}
        <p><strong>${count(all)}</strong> match, of which you have unlocked <strong>${count(unlocked)}</strong></p>
        !${page.rows.length === 0 ? none(view, all) : results(page.rows, view, all - unlocked, isAdmin(request))}
        !${cursorPager(request, page.nextCursor)}`,
    };
  });

  // Suggestions for one field: a page with links, from which the script also takes the values while one types.
  addPage(app, '/prospects/suggest', forMembers, async (request) => {
    const view = viewOf(queryOf(request));
    const source = textFields.find((one) => one === queryText(request, 'source'));
    if (!source) throw new DomainError('not_found', 'There is no such page');
    const body = { source, search: queryText(request, 'q').slice(0, 100) };
    const isAsked = findUnstorableText(body).length === 0 && compile(SuggestionQuery).isValid(body);
    const found = isAsked ? await request.catalog.suggest(body) : [];
    const links = found.map(
      ({ value }) => html`<a href="${pathWith(section, { ...view, [source]: value })}" data-value>${value}</a>`,
    );
    return {
      title: `Suggestions: ${prospectWords[source]}`,
      body: html`!${filters(
        `${section}/suggest`,
        html`!${hidden({ ...view, source })}
          <label>Begins with <input type="search" name="q" value="${body.search}" maxlength="100" /></label>`,
        html`<button class="secondary outline">Show</button>
          !${linkButton('Back', pathWith(section, view), 'secondary outline')}`,
      )}
      !${links.length === 0 ? empty('Nothing begins so', 'Try fewer letters.') : bullets(links)}`,
    };
  });
}

function filterForm(view: ProspectView): Html {
  const check = (name: string, label: string) => tick('checkbox', [name, '1'], label, Boolean(view[name]));
  const status = select('name="status"', [['', 'any'], ...verificationChoices], view['status'] ?? '');
  const score = html`<input type="number" name="score" min="0" max="100" value="${view['score'] ?? ''}" />`;
  const controls = html`!${searched.map((name) => textControl(name, view))}
  !${labelled(prospectWords.verification_status, status)} !${labelled(`${prospectWords.score}, at least`, score)}
  !${check('has_email', 'with e-mail')} !${check('has_phone', 'with phone')} !${check('all', 'also unlocked ones')}`;
  const clear = when(Object.keys(view).length > 0, linkButton('Clear', section, 'secondary outline'));
  const buttons = html`<button class="secondary outline">Search</button> !${clear}`;
  return html`<search>!${filters(section, controls, buttons)}</search>`;
}

function refuse(view: ProspectView, faults: readonly Fault[]): Page {
  const words: Readonly<Record<string, string>> = prospectWords;
  const texts = faults.map(({ path, message }) => `${words[path.split('/')[2] ?? ''] ?? 'The search'} ${message}.`);
  return { title: 'Prospects', status: 400, body: html`!${formFaults({ '': texts.join(' ') })} !${filterForm(view)}` };
}

/** Returns a text input with suggestions while the user types. Without JavaScript, a link leads to the suggestions. */
function textControl(name: TextField, view: ProspectView): Html {
  const { [name]: value = '', ...others } = view;
  const suggest = pathWith(`${section}/suggest`, { ...others, source: name });
  const attributes = html`name="${name}" maxlength="256" autocomplete="off" data-suggest="${suggest}"`;
  const spoken = `Suggestions for ${prospectWords[name]}`;
  return html`!${labelled(prospectWords[name], textInput(attributes, value, 'search'))}
    <noscript><a href="${suggest}" aria-label="${spoken}">Suggestions</a></noscript>`;
}

function results(rows: readonly Prospect[], view: ProspectView, locked: number, isAdmin: boolean): Html {
  const shown = table('Prospects', columnsFor(isAdmin), rows);
  if (!isAdmin) return html`<div class="rows">!${shown}</div>`;
  const few = Math.max(1, Math.min(25, locked));
  const number = html`<input type="number" name="number" min="1" max="10000" value="${few}" />`;
  return chooserForm(
    `${section}/unlock`,
    html`!${hidden(view)} !${shown}`,
    '<button name="do" value="chosen">Unlock the chosen</button>',
    html`!${labelled('The first', number)}
      <button name="do" value="first" class="secondary outline">Unlock that many</button>`,
  );
}

function nameCell({ _id: id, first_name, last_name }: Prospect, canChoose: boolean): Html {
  const name = `${first_name} ${last_name}`.trim() || 'Without a name';
  return html`!${when(canChoose, chooserBox(id, name))}${name}`;
}

const columnsFor = (canChoose: boolean): readonly Column<Prospect>[] => [
  ['Name', (one) => nameCell(one, canChoose), canChoose ? 'chosen-first' : 'row'],
  [prospectWords.job_title, (one) => html`${one.job_title}`],
  [prospectWords.job_company_name, (one) => html`${one.job_company_name}`],
  [prospectWords.verification_status, (one) => verification(one.verification_status)],
  [prospectWords.mobile_phone, (one) => html`${(one.mobile_phone ?? '').replace(/•+/, '…')}`],
  [prospectWords.work_email, (one) => html`${one.work_email}`],
  ['Place', (one) => html`${[one.location_locality, one.location_country].filter(Boolean).join(', ')}`],
];

function none(view: ProspectView, all: number): Html {
  if (all > 0) return empty('All of them are unlocked', 'Show the unlocked ones too, or search for others.', 'done');
  if (Object.keys(view).length === 0)
    return empty('The catalog is empty', 'Whoever runs this service loads people into it.', 'people');
  const clear = linkButton('Show all', section, 'secondary outline');
  return empty('Nobody matches', 'Take a filter away, or use the suggestions.', 'search', clear);
}

const searched: readonly TextField[] = [
  ...(['job_title', 'job_company_name', 'job_company_industry'] as const),
  ...(['location_country', 'location_region', 'location_locality'] as const),
];

const choiceNames = ['status', 'score', 'has_email', 'has_phone', 'all'] as const;

type ProspectView = Readonly<Record<string, string>>;

/**
 * Reads a search for prospects from the parameters of an address.
 * @throws DomainError `validation_failed` if a value contains characters that cannot be stored
 */
function viewOf(fields: Fields): ProspectView {
  const view = filledIn(fields, ...textFields, ...choiceNames);
  const faults = findUnstorableText(view);
  if (faults.length > 0) throw validationFailed(faults);
  return view;
}

/** Returns the filters of a view. In a text field, semicolons separate values of which one must match. */
async function filtersOf(view: ProspectView): Promise<ProspectFilters> {
  const texts: [TextField, string[]][] = [];
  for (const name of textFields) {
    const given = (view[name] ?? '').split(';').flatMap((value) => value.trim() || []);
    if (given.length > 0) texts.push([name, name === 'location_country' ? await withEnglishNames(given) : given]);
  }
  const { status, score } = view;
  return {
    ...Object.fromEntries(texts),
    ...(status ? { verification_status: [status as (typeof verificationStatuses)[number]] } : {}),
    // A text that is not a number stays one, so that the validation refuses it.
    ...(score ? { score: { gte: /^\d{1,3}$/.test(score) ? Number(score) : (score as never) } } : {}),
    ...(view['has_email'] ? { has_email: true } : {}),
    ...(view['has_phone'] ? { has_phone: true } : {}),
  };
}

/** Adds the English name of each country, which the catalog uses: `Deutschland` → `Deutschland`, `Germany`. */
async function withEnglishNames(countries: readonly string[]): Promise<string[]> {
  if (countries.length > 100) return [...countries]; // refused by the schema
  const codeOf = await countryCodes();
  const named = countries.flatMap((given) => [given, countryName(codeOf(given)) || []].flat());
  return [...new Map(named.map((name) => [fold(name), name])).values()];
}

const maxChosen = UnlockSelectedContacts.properties.ids.maxItems as number;

function unlocking(app: FastifyInstance): void {
  formRoutes(app, '/prospects/unlock', forAdmins, {
    show: showUnlock,
    act: async (request) => {
      const fields = fieldsOf(request);
      const unlock = await unlockOf(fields);
      const fault = faultOf(unlock);
      if (fault) return fault;
      const plan = await prepareJob(unlock.type, request, unlock.body);
      const payer = payerOf(request);
      const job = await once(request, async (sql) => {
        const list = namesList(fields) ? await chosenList(request, sql, 'PROSPECT') : undefined;
        const planned = await plan(sql, payer, list === undefined ? {} : { list_ids: [list] });
        return { ...(await startJob(sql, payer, planned)), list };
      });
      return jobPath(job, { list: job?.list });
    },
  });

  function faultOf({ type, body }: Unlock): Refused | undefined {
    if (compile(schemaOf[type]).isValid(body)) return undefined;
    const isNumber =
      type === 'unlock_contacts' && compile(UnlockContacts.properties.total_records).isValid(body.total_records);
    const text = isNumber ? 'Search for less: a filter has too many values.' : 'Give a number from 1 to 10,000.';
    return { faults: { '': type === 'unlock_contacts' ? text : 'Choose some prospects first.' }, status: 400 };
  }

  async function showUnlock(request: FastifyRequest, { faults }: Refused): Promise<FormPage> {
    const fields = givenIn(request);
    const view = viewOf(fields);
    const unlock = await unlockOf(fields);
    const { type, body } = unlock;
    const fault = faultOf(unlock);
    const price = fault ? undefined : await priceFor(request, type, body);
    const makesContacts = request.method !== 'POST' || body.sync_crm;
    const { total_records = Infinity, ids = [] } = body as Partial<UnlockContacts & UnlockSelectedContacts>;
    const number = Math.min(total_records, price?.matches ?? 0);
    const kept = { ...view, do: text(fields, 'do'), number: text(fields, 'number'), id: ids };
    const controls =
      price &&
      html`<p>
          Unlocks ${counted(number, 'prospect')}. Those that were unlocked before, or have no valid e-mail address, cost
          nothing.
        </p>
        !${'filters' in body ? quiet(searchText(body.filters)) : ''} !${priceOf(price)}
        !${tick('checkbox', ['sync_crm', '1'], 'Make contacts of them', makesContacts)}
        !${await listControls(request, faults, 'no list')}`;
    return {
      title: 'Unlock prospects',
      refused: fault,
      body: html`!${hidden(kept)} !${controls ?? ''}
        <div class="buttons">
          !${when(price && number > 0 && price.cost <= price.available, '<button>Unlock now</button>')}
          !${linkButton('Back', pathWith(section, view), 'secondary outline')}
        </div>`,
      attributes: 'data-once',
      isNarrow: true,
    };
  }
}

const schemaOf = { unlock_contacts: UnlockContacts, unlock_selected_contacts: UnlockSelectedContacts };

type Unlock = Awaited<ReturnType<typeof unlockOf>>;

async function unlockOf(fields: Fields) {
  const sync_crm = text(fields, 'sync_crm') === '1';
  if (text(fields, 'do') !== 'first')
    return { type: 'unlock_selected_contacts', body: { ids: idsIn(fields, 'id', maxChosen), sync_crm } } as const;
  const filters = await filtersOf(viewOf(fields));
  return { type: 'unlock_contacts', body: { filters, total_records: integer(fields, 'number'), sync_crm } } as const;
}
