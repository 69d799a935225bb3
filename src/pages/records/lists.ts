import { verificationChoices, priceOf, fieldWord, comparisons, comparisonWord, countryChoices } from '../base/words.ts';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { spenderOf } from '../../access/credentials.ts';
import { listContacts, previewRules } from '../../queries/crm/contacts.ts';
import { createList, deleteList, findList, findListNamed, listLists, listTag } from '../../queries/crm/lists.ts';
import { updateList } from '../../queries/crm/lists.ts';
import { contactFilterFields, type ContactDetail } from '../../schemas/contacts.ts';
import type { Fault } from '../../errors.ts';
import { ListCreate, ListPatch, ruleFields, ruleLimits, ruleOperators } from '../../schemas/lists.ts';
import type { List, RuleGiven, Rule, RuleOperator } from '../../schemas/lists.ts';
import { forMembers, forAdmins, addPage, question, listPage, jobPath } from '../base/layout.ts';
import { cursorPager, controlsFor, tick, faultMark, faultText, textInput, select, hidden } from '../base/forms.ts';
import { differing, rowAct, rowEditor, option, textArea, type Choice, type Choices } from '../base/forms.ts';
import { startOnce, priceFor, fieldsOf, text, integer, idOf, isAdmin, required, placeIn } from '../base/requests.ts';
import { ask, queryOf, requireValid, linesIn, unchanged, asSentBack, rowsIn, type Faults } from '../base/requests.ts';
import { when, quiet, empty, linkButton, html, link, twoLines, moment, count, counted, notice } from '../base/html.ts';
import { bullets, dayOf, startOf, endOf, readDay, pathWith, type Html, type Column } from '../base/html.ts';
import { nameOfContact, peopleOfCompanies } from './kinds.ts';
import { editLinks, editor, isPreview, nameTaken, usersOf, declaredFor, type Draft, type EditForm } from './editor.ts';
import { maxCounted, numberOf, type Heading } from './record-list.ts';
import { EnrichContacts } from '../../schemas/clean-data.ts';
import { customKey, fieldType } from '../../schemas/filters.ts';
import type { DeclaredType } from '../../schemas/wire.ts';
import { countryCodes } from '../../files/phones.ts';
import { clearNumber } from '../../files/values.ts';
import { isInstant } from '../../schemas/formats.ts';
import { fold } from '../../text/fold.ts';
import { canonicalId } from '../../text/ids.ts';

const section = '/app/lists';

export async function lists(app: FastifyInstance): Promise<void> {
  addPage(app, '/lists', forMembers, async (request) => {
    const [page, known] = await Promise.all([ask(request, listLists, placeIn(request)), knownFor(request)]);
    const more = (number: number): Html => when(number > 0, quiet(`and ${number} more`));
    const rulesCell = ({ rules }: List): Html =>
      rules.length === 0 ? byHand : html`!${rulesText(rules.slice(0, 3), known)} !${more(rules.length - 3)}`;
    const columns: readonly Column<List>[] = [
      ['List', ({ id, name, description }) => twoLines(link(name, `${section}/${id}`), html`${description}`)],
      ['Contacts', (list) => count(list.contacts_count), 'number'],
      ['Rules', rulesCell, 'long'],
      ['Last changed', (list) => twoLines(moment(list.updated_at), html`${list.owner_name}`)],
    ];
    return listPage({
      title: 'Lists',
      columns,
      rows: page.rows,
      none: ['No lists yet', 'A list holds contacts that you put into it, or all that match its rules.', 'list'],
      add: linkButton('New list', `${section}/new`),
      below: cursorPager(request, page.nextCursor),
    });
  });

  addPage(app, '/lists/:id', forMembers, async (request) => {
    const { id } = await requireList(request, 1);
    return pathWith('/app/contacts', { ...queryOf(request), list: id });
  });

  addPage(app, '/lists/:id/people', forMembers, async (request) => {
    const { id } = await requireList(request, 1);
    const members = await ask(request, listContacts, { filters: { list_id: id }, paginate: { limit: maxMembers } });
    const names = (members.rows as ContactDetail[]).flatMap(({ company }) => company.company_name ?? []);
    return peopleOfCompanies([...new Set(names)]);
  });

  editor<List>(app, {
    path: section,
    noun: 'list',
    schemas: { create: ListCreate, patch: ListPatch },
    about: requireList,
    nameOf: ({ name }) => name,
    tagOf: listTag,
    bodyOf: listOf,
    controls: listControls,
    buttons:
      '<button name="do" value="preview" formaction="#rules" class="secondary outline" formnovalidate>Preview</button>',
    doubt: async (request, { name = '', rules }: ListPatch, id) => {
      const isEmptied = id !== undefined && rules?.length === 0;
      const other = await ask(request, findListNamed, name, id);
      return nameTaken('list', section, other) + when(isEmptied, notice(emptied, 'warning'));
    },
    create: async (sql, customerId, body, userId) => (await createList(sql, customerId, userId, body)).id,
    update: updateList,
    remove: deleteList,
    question: ({ name, contacts_count }) =>
      html`<strong>${name}</strong> will be deleted. This can be undone. Its contacts (${numberOf(contacts_count)})
        stay.`,
  });

  question(app, '/lists/:id/verify', forAdmins, {
    ...spending,
    title: 'Verify the list',
    text: async ({ id, name, contacts_count }, request) => {
      const price = await priceFor(request, 'verify_list', { list_id: id });
      return html`The e-mail addresses of the contacts in <strong>${name}</strong> (${numberOf(contacts_count)}) are
        checked, and the outcome is stored with the contacts. !${priceOf(price)}`;
    },
    act: async (request, { id }) => {
      const job = await startOnce(request, 'verify_list', { list_id: id });
      return jobPath(job, { list: id });
    },
  });

  question(app, '/lists/:id/enrich', forAdmins, {
    ...spending,
    title: 'Enrich the list',
    text: async ({ id, name }, request) => {
      const sent = fieldsOf(request);
      const body = { filters: { list_id: id }, max_credits: maxCredits };
      const price = await priceFor(request, 'enrich_contacts', body);
      const max_credits = text(sent, 'max_credits') || String(Math.min(price.cost, price.available));
      const { input } = controlsFor({ max_credits }, {});
      const hint = 'Credits. When they are used up, the rest is left out.';
      return html`<p>
          Looks for ${counted(price.matches, 'contact')} of <strong>${name}</strong> in the catalog, by e-mail, profile,
          or name and company, and fills their empty fields. Who is not found, or was unlocked before, costs nothing.
        </p>
        !${priceOf(price)}
        !${input('max_credits', 'Spend at most', { hint, more: 'inputmode="numeric" autocomplete="off"' })}
        !${tick('checkbox', ['overwrite', '1'], 'Also replace what the contacts have', text(sent, 'overwrite') === '1')}`;
    },
    act: async (request, { id }) => {
      const sent = fieldsOf(request);
      const [overwrite, max_credits] = [text(sent, 'overwrite') === '1', integer(sent, 'max_credits')];
      const body = { filters: { list_id: id }, overwrite, max_credits };
      requireValid(EnrichContacts, body);
      return jobPath(await startOnce(request, 'enrich_contacts', body, spenderOf(request.caller)));
    },
  });
}

const emptied = 'Without rules, only contacts that were put in by hand stay in the list. All others leave it.';

/** Maximum number of list members whose companies a search for other people uses. The newest members are used. */
const maxMembers = 1_000;

const requireList = async (request: FastifyRequest, max = maxCounted): Promise<List> =>
  required(await ask(request, findList, idOf(request, 'list'), max), 'list');

const spending = { about: requireList, back: ({ id }: List): string => `${section}/${id}`, tone: '' } as const;

const byHand = html`<span class="quiet">by hand</span>`;

/** Returns the heading of the page of contacts that are filtered by a list, which is the list's page. */
export async function listHeading(request: FastifyRequest, id: string): Promise<Heading | undefined> {
  const list = await ask(request, findList, id, 1);
  if (!list) return undefined;
  const { name, description, rules, contacts_count, owner_name, updated_at } = list;
  const path = `${section}/${list.id}`;
  const isEmpty = contacts_count === 0;
  const spends = html`!${linkButton('Verify', `${path}/verify`, 'secondary outline', 'data-dialog')}
  !${linkButton('Enrich', `${path}/enrich`, 'secondary outline')}`;
  const lead = [
    html`${description}`,
    html`${owner_name}`,
    html`changed !${moment(updated_at)}`,
    when(!isEmpty, link('Find their colleagues', `${path}/people`)),
  ];
  return {
    section,
    title: name,
    lead: html`!${lead.filter(Boolean).join(' · ')}
    !${when(rules.length > 0, rulesText(rules, await knownFor(request)))}`,
    actions: html`!${when(isAdmin(request) && !isEmpty, spends)} !${editLinks(path)}`,
    none: when(
      isEmpty,
      rules.length > 0
        ? empty('Nobody matches', 'No contact matches the rules. Change them, or import more contacts.', 'people')
        : empty('Nobody yet', 'Choose contacts and add them to this list.', 'people', chooseContacts),
    ),
  };
}

const chooseContacts = linkButton('Choose contacts', '/app/contacts', 'secondary outline');

const maxCredits = 1_000_000_000;

function draftOf(fields: ReturnType<typeof fieldsOf>) {
  const rows = rowsIn(fields, ['field', 'operator', 'value', 'join'], ruleLimits.rules);
  const rules = rows.map(({ field, operator, value: written, join }, i): RuleGiven => {
    const logic_operator = join === 'OR' ? join : 'AND';
    const value = written || [fields[`value-${i}`] ?? []].flat().join(', ');
    return { field, operator: (operator || 'equals') as RuleOperator, value, logic_operator };
  });
  return { name: text(fields, 'name').trim(), description: linesIn(fields, 'description'), rules };
}

/**
 * Returns the API's request body for a form, and the form's faults. For a stored list, the body contains only the
 * changes.
 */
async function listOf(request: FastifyRequest, stored: List | undefined): Promise<Draft> {
  const draft = draftOf(fieldsOf(request));
  const known = await knownFor(request);
  const faults: Fault[] = [];
  const rules: RuleGiven[] = [];
  for (const rule of draft.rules.flatMap(rulesOf)) {
    const refuse: Refuse = (message) => faults.push({ path: `/rules/${rules.length}`, message });
    if (rule.field === '') refuse(`choose a field for “${rule.value}”`);
    // What is wrong with the shape of a rule is said by the validation.
    const isKnown = typeOf(rule.field) !== undefined && ruleOperators.includes(rule.operator);
    rules.push(isKnown ? { ...rule, value: await readRule(rule, stored?.rules ?? [], known, refuse) } : rule);
  }
  const given = {
    // Rules can be tried before the list has a name.
    name: unchanged(draft.name, [stored?.name ?? '']) || (isPreview(request) ? '–' : ''),
    description: unchanged(draft.description, [stored?.description ?? '']),
    rules,
  };
  const isChanged = ([name, value]: [string, unknown]): boolean =>
    JSON.stringify(value) !== JSON.stringify(stored?.[name as keyof typeof given]);
  return { body: Object.fromEntries(Object.entries(given).filter(isChanged)), faults };
}

async function listControls(form: EditForm<List>, request: FastifyRequest): Promise<Html> {
  const { stored, sent, faults, status, isConflict } = form;
  const known = await knownFor(request);
  const blank = { name: '', description: '', rules: [] };
  const { rules, ...draft } = sent ? draftOf(sent) : (stored ?? blank);
  const shown = sent ? rules : rules.map((rule) => ({ ...rule, value: valueText(rule, known) }));
  const stale = isConflict && sent ? stored : undefined;
  const theirs = stale ? differing({ name: stale.name, description: stale.description }, sent!) : {};
  const { input, area } = controlsFor({ name: draft.name, description: draft.description }, faults, theirs, ['name']);
  const isTried = isPreview(request) && status === 200;
  return html`<div class="card">!${input('name', 'Name')} !${area('description', 'What it is for')}</div>
    <h2 id="rules">Rules</h2>
    !${isTried ? await previewOf(request, stored) : ''}
    <p class="quiet">
      Contacts are in the list as long as they match the rules. Without rules, you put contacts in by hand. Each “or”
      begins another group of rules: a contact that matches one whole group is in the list.
    </p>
    !${stale ? html`<p>Stored now: !${stale.rules.length > 0 ? rulesText(stale.rules, known) : byHand}</p>` : ''}
    !${faultText('rules', faults)} !${ruleTable(request, shown, known, faults)}
    !${when(known.declared.length === 0, quiet('Your own fields can be chosen here once an admin has set them up under “Fields”.'))}`;
}

async function previewOf(request: FastifyRequest, stored: List | undefined): Promise<Html> {
  const { rules = stored?.rules ?? [] } = (await listOf(request, stored)).body as ListPatch;
  if (rules.length === 0) return notice('Without rules, contacts are put into the list by hand.', 'busy');
  const { total, newest } = await ask(request, previewRules, rules, maxCounted, 5);
  const contacts = total === 1 ? '1 contact matches' : `${numberOf(total)} contacts match`;
  const names = newest.map((one) => html`${[nameOfContact(one), one.job_title].filter(Boolean).join(' · ')}`);
  const list = bullets(total > newest.length ? [...names, 'and others'] : names);
  return notice(`${contacts} these rules now.`, 'busy', when(total > 0, list));
}

function ruleTable(request: FastifyRequest, rules: readonly RuleGiven[], known: Known, faults: Faults): Html {
  const blank: RuleGiven = { field: '', operator: 'equals', value: '', logic_operator: 'AND' };
  const spoken = (i: number, name: string): Html => html`aria-label="Rule ${i + 1}: ${name}"`;
  const choice = (i: number, part: string, name: string, choices: Choices, chosen: string, more: Html = '') =>
    select(html`name="${part}" !${spoken(i, name)} !${more}`, choices, chosen);
  const offered = ruleFields.filter((name) => name === 'assigned_to' || typeOf(name) !== 'uuid');
  const choosable = ['', ...offered, ...known.declared.map(({ key }) => `custom_fields.${key}`)];
  const fieldChoice = (one: string): Choice => [one, fieldWord('contacts', one, known.declared) || 'Choose a field'];
  const fieldsWith = (field: string) => [...new Set([...choosable, field])].map(fieldChoice);
  const redrawn = (part: string, i: number): Html => html`data-row="row ${part} ${i}"`;
  const show = (i: number): Html =>
    html`<button class="link" name="do" value="row field ${i}" formnovalidate>Show its values</button>`;
  // Faults are named by the rules of the body.
  let sent = 0;
  const names = rules.map((rule) => {
    const own = rulesOf(rule).map(() => `rules-${sent++}`);
    return own.find((name) => faults[name]) ?? 'rules-none';
  });
  const value = ({ field, operator, value: given }: RuleGiven, i: number): Html => {
    const mark = faultMark(names[i]!, faults);
    const kind = kindOf(field, known);
    const words = isOffered(kind, operator) ? choicesOf(field, known)?.map(([, word]) => word) : undefined;
    const some = [...new Set(['', ...(words ?? []), given])].map((one): Choice => [one, one || 'Choose a value']);
    const shown = (control: Html, hint = ''): Html =>
      html`!${control} !${faultText(names[i]!, faults)} !${when(hint, html`<small>${hint}</small>`)}`;
    if (words && !isPlural(operator)) return shown(choice(i, 'value', 'value', some, given, mark));
    if (words && words.length <= maxNamed) {
      const chosen = partsOf({ field, operator, value: given }).filter(Boolean);
      const box = (one: string) => tick('checkbox', [`value-${i}`, one], html`${one}`, chosen.includes(one));
      const boxes = [...new Set([...words.filter(isSingle), ...chosen])].map(box);
      const set = html`<fieldset !${spoken(i, 'values')} !${mark}>!${hidden({ value: '' })} !${boxes}</fieldset>`;
      return shown(set, words.every(isSingle) ? '' : 'A choice with a comma or semicolon fits only “is” and “is not”.');
    }
    const about = html`name="value" !${spoken(i, 'value')} autocomplete="off" !${mark}`;
    if (isPlural(operator)) {
      const list = words?.filter(isSingle).map((one) => option(one, one, ''));
      const input = textInput(html`!${about} list="words-${i}" data-several`, given);
      const control = list ? html`<datalist id="words-${i}">!${list}</datalist>!${input}` : textArea(about, given);
      return shown(control, 'Separate several with commas.');
    }
    const type = kind === 'day' && (given === '' || readDay(given) === given) ? 'date' : 'text';
    const mode = when(kind === 'number', 'inputmode="decimal"');
    return shown(textInput(html`!${about} !${mode}`, given, type), kind === 'day' ? 'A day in UTC' : '');
  };
  const start = html`!${hidden({ join: 'AND' })} Contacts whose`;
  const join = ({ logic_operator = 'AND' }: RuleGiven, i: number): Html =>
    i > 0 ? choice(i, 'join', 'joined by', { AND: 'and', OR: 'or' }, logic_operator) : start;
  const field = ({ field: name }: RuleGiven, i: number): Html =>
    html`!${choice(i, 'field', 'field', fieldsWith(name), name, redrawn('field', i))} <noscript>!${show(i)}</noscript>`;
  const comparison = ({ field: name, operator }: RuleGiven, i: number): Html => {
    const kind = kindOf(name, known);
    const words = { ...comparisons[kind], [operator]: comparisonWord(kind, operator) };
    return choice(i, 'operator', 'comparison', words, operator, redrawn('comparison', i));
  };
  const columns: readonly Column<RuleGiven>[] = [
    ['And / or', join],
    ['Field', field],
    ['Comparison', comparison],
    ['Value', value, 'long'],
  ];
  const rows = rules.map((rule, i) => (rowAct(request) === `field ${i}` ? fitting(rule, known) : rule));
  return rowEditor(request, { label: 'Rules', noun: 'rule', columns, rows, blank, most: ruleLimits.rules });
}

/** Returns the values that a field can have, with the words for them. Undefined: it can have others. */
function choicesOf(field: string, known: Known): readonly Choice[] | undefined {
  const own = known.declared.find(({ key }) => key === customKey(field));
  if (own?.type === 'boolean') return Object.entries({ true: 'yes', false: 'no' });
  if (own?.type === 'choice') return own.choices.map((one) => [one, one]);
  if (field === 'assigned_to') return known.owners;
  if (field === 'location_country') return countryChoices;
  return field === 'verification_status' ? verificationChoices : undefined;
}

function kindOf(field: string, known: Known): keyof typeof comparisons {
  const type = declaredType(field, known) ?? typeOf(field);
  if (type === 'integer' || type === 'number') return 'number';
  if (type === 'instant' || type === 'date') return 'day';
  return choicesOf(field, known) ? 'choice' : 'text';
}

const isOffered = (kind: keyof typeof comparisons, operator: string): boolean =>
  Object.hasOwn(comparisons[kind], operator);

/** Returns a rule whose field was just chosen, without a comparison or a value that the field cannot have. */
function fitting(rule: RuleGiven, known: Known): RuleGiven {
  const [kind, choices] = [kindOf(rule.field, known), choicesOf(rule.field, known)];
  const isKept = isOffered(kind, rule.operator) && (rule.operator !== 'equals' || rule.value !== '');
  const operator = isKept ? rule.operator : (Object.keys(comparisons[kind])[0] as RuleOperator);
  const fits = choices
    ? partsOf({ ...rule, operator }).every((one) => choices.some(([, word]) => word === one))
    : kind !== 'day' || isInstant(rule.value) || readDay(rule.value) !== undefined;
  return { ...rule, operator, value: fits ? rule.value : '' };
}

/** Returns the rules for a row of the form: none for an empty one, two for a day, from its beginning to its end. */
function rulesOf(rule: RuleGiven): RuleGiven[] {
  if (rule.field + rule.value === '') return [];
  const isDay = rule.operator === 'equals' && typeOf(rule.field) === 'instant' && readDay(rule.value) !== undefined;
  const until: RuleGiven = { ...rule, operator: 'less_or_equal', logic_operator: 'AND' };
  return isDay ? [{ ...rule, operator: 'greater_or_equal' }, until] : [rule];
}

type Condition = Omit<RuleGiven, 'logic_operator'>;

/** Is called with what is wrong with a rule. */
type Refuse = (message: string) => void;

const whole: ReadonlySet<RuleOperator> = new Set(['equals', 'not_equals', 'in', 'not_in']);

const isPlural = (operator: RuleOperator): boolean => operator === 'in' || operator === 'not_in';

const partsOf = ({ operator, value }: Condition, at = /,/): string[] =>
  isPlural(operator) ? value.split(at).map((one) => one.trim()) : [value];

/** What separates several values in a form. The API separates them at commas. */
const separators = /[,;\n]/;

/** Returns false for a choice that cannot be one of several, because the API would read it as two. */
const isSingle = (choice: string): boolean => !separators.test(choice);

/** Maximum number of choices that a message names, or that have a checkbox each. More choices are typed. */
const maxNamed = 12;

const isEmptiness = (operator: RuleOperator): boolean => operator === 'is_empty' || operator === 'is_not_empty';

const valueText = (rule: Condition, known: Known): string =>
  partsOf(rule)
    .map((value) => wordOf({ ...rule, value }, known))
    .join(', ');

function wordOf({ field, operator, value }: Condition, known: Known): string {
  const choices = whole.has(operator) ? choicesOf(field, known) : undefined;
  const word = choices?.find(([one]) => one.toLowerCase() === value.toLowerCase())?.[1];
  const day = typeOf(field) === 'instant' && isInstant(value) && dayOf(value);
  return word || (day && Date.parse(value) === Date.parse(boundOf(operator, day) ?? '') ? day : value);
}

const typeOf = (field: string) => fieldType(contactFilterFields, field);

type Known = Awaited<ReturnType<typeof knownFor>>;

/**
 * Returns what the words of rules are made of. `owners` are the names of users, or their e-mail addresses where a name
 * is ambiguous. `addresses` are the e-mail addresses of all.
 */
async function knownFor(request: FastifyRequest) {
  const [users, declared] = await Promise.all([usersOf(request), declaredFor(request, { object: 'contacts' })]);
  const called = Map.groupBy(users, ({ name }) => fold(name));
  const isClear = (name: string) => called.get(fold(name))!.length === 1 && isSingle(name);
  const owners = users.map(({ id, name, email }): Choice => [id, isClear(name) ? name : email]);
  return { owners, addresses: users.map(({ id, email }): Choice => [id, email]), declared };
}

const declaredType = (field: string, { declared }: Known) => declared.find(({ key }) => key === customKey(field))?.type;

/** Converts the day of a rule to an instant. "Is at least" begins with the day. "Is more than" begins after it. */
function boundOf(operator: RuleOperator, day: string): string | undefined {
  if (operator === 'greater_or_equal' || operator === 'less_than') return startOf(day);
  return operator === 'greater_than' || operator === 'less_or_equal' ? endOf(day) : undefined;
}

/**
 * Reads a rule's value as users write it.
 * @param stored current rules of the list. A rule that was not edited keeps its stored value
 */
async function readRule(given: Condition, stored: readonly Rule[], known: Known, refuse: Refuse): Promise<string> {
  const { field, operator, value } = given;
  const alike = stored.filter((rule) => rule.field === field && rule.operator === operator);
  const shownOf = (rule: Condition): Condition => ({ ...rule, value: asSentBack(valueText(rule, known)).trim() });
  const sorted = (rule: Condition): string => JSON.stringify(partsOf(rule).toSorted());
  const sent = sorted({ ...given, value: asSentBack(value) });
  const same = alike.find((rule) => sorted(shownOf(rule)) === sent);
  if (same || isEmptiness(operator)) return same?.value ?? value;
  // Stored values stay as they are beside further ones, whatever they are.
  const kept = new Map(alike.flatMap((rule) => partsOf(shownOf(rule)).map((part, i) => [part, partsOf(rule)[i]!])));
  // A value can have a semicolon where commas separate.
  const parts = partsOf(given, value.includes(',') ? /[,\n]/ : separators).filter(Boolean);
  if (parts.length === 0) refuse('give a value, or choose “is empty”');
  const read = parts.map(async (part) => {
    const own = isPlural(operator) ? kept.get(part) : undefined;
    return own ?? readOne({ field, operator, value: part }, known, refuse);
  });
  return (await Promise.all(read)).join(', ');
}

async function readOne({ field, operator, value }: Condition, known: Known, refuse: Refuse): Promise<string> {
  const type = typeOf(field);
  const read = (found: string | false | undefined, what: string): string => {
    if (!found) refuse(`“${value}” is not ${what}`);
    return found || value;
  };
  if (type === 'uuid' && field !== 'assigned_to') return read(canonicalId(value) && value, 'an id');
  if (type === 'instant' && !isInstant(value)) {
    const day = readDay(value);
    const bound = day && boundOf(operator, day);
    if (day && !bound) refuse('choose “is on or after” or “is on or before” for a date');
    return bound ?? read(day, 'a clear date: write it as 2026-11-25');
  }
  if (type === 'integer') return read(/^[+-]?\d{1,9}$/.test(value) && value, 'a whole number');
  const own = /contains|_with/.test(operator) ? undefined : ownReaders[declaredType(field, known) ?? 'text'];
  if (own) return read(own[0](value), own[1]);
  if (!whole.has(operator)) return value;
  if (field === 'location_country') return read((await countryCodes())(value), 'a country');
  const choices = choicesOf(field, known);
  if (!choices) return value;
  const all = field === 'assigned_to' ? [...choices, ...known.addresses] : choices;
  const chosen = all.find(([name, word]) => [name, word.toLowerCase()].includes(value.toLowerCase()));
  const words = choices.slice(0, maxNamed).map(([, word]) => word);
  return read(chosen?.[0], `one of these: ${words.join(', ')}${when(choices.length > maxNamed, ' …')}`);
}

/** Functions that read a value of a field of the customer's own, and what it should be, by the type of the field. */
const ownReaders: Partial<Record<DeclaredType, [(text: string) => string | undefined, string]>> = {
  number: [(text) => clearNumber(text)?.toString(), 'a clear number: write it as 1249.50'],
  date: [readDay, 'a clear date: write it as 2026-11-25'],
};

function ruleText(rule: Condition, known: Known): string {
  const word = comparisonWord(kindOf(rule.field, known), rule.operator);
  const start = `${fieldWord('contacts', rule.field, known.declared)} ${word}`;
  return isEmptiness(rule.operator) ? start : `${start} ${valueText(rule, known)}`;
}

/** Returns rules as sentences. Puts rules joined by AND into one group, because AND binds tighter than OR. */
function rulesText(rules: readonly Rule[], known: Known): Html {
  let last = 0;
  const groups = Map.groupBy(rules, ({ logic_operator }) => (logic_operator === 'OR' ? ++last : last));
  const [or, and] = [' or ', ' and '].map((word) => html`<span class="quiet">${word}</span>`);
  const lines = [...groups.values()].map((group) => group.map((rule) => html`${ruleText(rule, known)}`).join(and));
  return lines.map((text, i) => html`<span class="line">!${when(i > 0, or!)}!${text}</span>`).join('');
}
