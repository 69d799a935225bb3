import type { FastifyRequest } from 'fastify';
import type { Fault } from '../../errors.ts';
import { countRuleMatches } from '../../queries/crm/contacts.ts';
import { contactFilterFields } from '../../schemas/contacts.ts';
import { fieldType } from '../../schemas/filters.ts';
import { ruleFields, ruleLimits, ruleOperators } from '../../schemas/lists.ts';
import type { List, ListPatch, RuleGiven, Rule, RuleOperator } from '../../schemas/lists.ts';
import type { User } from '../../schemas/accounts.ts';
import { verificationStatuses } from '../../schemas/verification.ts';
import { faultText, textInput, select, controlsFor, hidden, type Choice } from '../base/forms.ts';
import { fieldsOf, text, linesIn, unchanged, values, type Fields } from '../base/requests.ts';
import { when, notice, table, html, type Html, type Column } from '../base/html.ts';
import { dayOf, startOf, endOf, readDay } from '../base/values.ts';
import { fieldWord, verificationWords, operatorWords, countryName, countryChoices } from '../base/words.ts';
import { isPreview, type Draft, type EditForm } from './editor.ts';
import { usersOf } from './record-form.ts';
import { maxCounted, numberOf } from './record-list.ts';
import { countryCodes } from '../../files/phones.ts';
import { isInstant } from '../../schemas/formats.ts';
import { fold } from '../../text/fold.ts';
import { canonicalId } from '../../text/ids.ts';

const emptyRows = 3;

interface ListDraft {
  name: string;
  description: string;
  rules: RuleGiven[];
}

function draftOf(fields: Fields): ListDraft {
  const [names, operators, given, joins] = ['field', 'operator', 'value', 'join'].map((name) =>
    values(fields, name, ruleLimits.rules),
  );
  const rows = names!.map((name, i) => ({
    // A field of the customer's own is written with its key.
    field: name,
    operator: (operators![i] ?? 'equals') as RuleGiven['operator'],
    value: given![i] ?? '',
    logic_operator: joins![i] === 'OR' ? ('OR' as const) : ('AND' as const),
  }));
  const rules = rows.filter((row) => row.field !== '');
  return { name: text(fields, 'name').trim(), description: linesIn(fields, 'description'), rules };
}

const draftOfStored = ({ name, description, rules }: List, users: readonly User[]): ListDraft => ({
  name,
  description,
  rules: rules.map((rule) => ({ ...rule, value: valueText(rule, users) })),
});

/**
 * Returns the API's request body for a form, and the form's faults. For a stored list, the body contains only the
 * changes.
 */
export async function listOf(request: FastifyRequest, stored: List | undefined): Promise<Draft> {
  const draft = draftOf(fieldsOf(request));
  const users = await usersOf(request);
  const faults: Fault[] = [];
  const rules: RuleGiven[] = [];
  for (const rule of draft.rules) {
    const context = { stored: stored?.rules ?? [], users };
    // What is wrong with the shape of a rule is said by the validation.
    const read = isKnown(rule) ? await readRule(rule, context) : { value: rule.value };
    if ('fault' in read)
      faults.push({ path: '/rules', message: `${fieldWord('contacts', rule.field)}: ${read.fault}` });
    rules.push({ ...rule, value: 'value' in read ? read.value : rule.value });
  }
  const given = {
    // Rules can be tried before the list has a name.
    name: unchanged(draft.name, [stored?.name ?? '']) || (isPreview(request) ? '–' : ''),
    description: unchanged(draft.description, [stored?.description ?? '']),
    rules,
  };
  if (faults.length > 0) return { body: { ...given, rules: [] }, faults };
  const before = stored && { name: stored.name, description: stored.description, rules: stored.rules };
  const changes = Object.entries(given).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before?.[name as keyof typeof given]),
  );
  return { body: stored ? Object.fromEntries(changes) : given, faults };
}

const isKnown = ({ field, operator }: RuleGiven): boolean =>
  fieldType(contactFilterFields, field) !== undefined && ruleOperators.includes(operator);

export async function listControls(form: EditForm<List>, request: FastifyRequest): Promise<Html> {
  const { stored, sent, faults, status } = form;
  const users = await usersOf(request);
  const blank = { name: '', description: '', rules: [] };
  const draft = sent ? draftOf(sent) : stored ? draftOfStored(stored, users) : blank;
  const { input, area } = controlsFor({ name: draft.name, description: draft.description }, faults);
  const isTried = isPreview(request) && status === 200;
  return html`!${isTried ? await previewOf(request, stored) : ''}
    <div class="card">!${input('name', 'Name')} !${area('description', 'What it is for')}</div>
    <h2>Rules</h2>
    <p class="quiet">
      Contacts that match the rules are in the list by themselves. Without rules, you put contacts in by hand. Rules
      joined by “and” belong together; “or” begins other rules, which are enough as well. A date, such as 2026-11-25, is
      a day in UTC.
    </p>
    !${faultText('rules', faults)} !${ruleTable(draft.rules)} !${valueLists(users)}`;
}

async function previewOf(request: FastifyRequest, stored: List | undefined): Promise<Html> {
  const { db, caller } = request;
  const { rules = stored?.rules ?? [] } = (await listOf(request, stored)).body as ListPatch;
  if (rules.length === 0) return notice('Without rules, contacts are put into the list by hand.', 'busy');
  const matches = await countRuleMatches(db, caller.customerId, rules, maxCounted);
  return notice(`${numberOf(matches)} contacts match these rules now.`, 'busy');
}

function ruleTable(rules: readonly RuleGiven[]): Html {
  const blank: RuleGiven = { field: '', operator: 'equals', value: '', logic_operator: 'AND' };
  const rows = [...rules, ...Array.from({ length: emptyRows }, () => blank)].slice(0, ruleLimits.rules);
  const choice = (i: number, part: string, name: string, choices: readonly Choice[], chosen: string) =>
    select(html`name="${part}" aria-label="Rule ${i + 1}: ${name}"`, choices, chosen);
  const fieldsWith = (field: string) =>
    [...new Set(['', ...ruleFields, field])].map((name): Choice => [name, name ? fieldWord('contacts', name) : '–']);
  const joins = Object.entries({ AND: 'and', OR: 'or' });
  const operators = ruleOperators.map((one) => [one, operatorWords[one]] as const);
  const columns: readonly Column<RuleGiven>[] = [
    [
      'Joined by',
      ({ logic_operator: join }, i) =>
        i === 0 ? hidden({ join: 'AND' }) : choice(i, 'join', 'joined by', joins, join ?? 'AND'),
    ],
    ['Field', ({ field }, i) => choice(i, 'field', 'field', fieldsWith(field), field)],
    ['Comparison', ({ operator }, i) => choice(i, 'operator', 'comparison', operators, operator)],
    [
      'Value',
      ({ value }, i) =>
        textInput(html`name="value" aria-label="Rule ${i + 1}: value" autocomplete="off" data-values`, value),
    ],
  ];
  return table('Rules', columns, rows);
}

function valueLists(users: readonly User[]): Html {
  const words = {
    assigned_to: users.filter(({ active }) => active).map(({ name }) => name),
    location_country: countryChoices.map(([, name]) => name),
    verification_status: verificationStatuses.map((one) => verificationWords[one].word),
  };
  const options = (all: readonly string[]) => all.slice(0, maxSuggested).map((one) => html`<option>${one}</option>`);
  return html`!${Object.entries(words).map(
    ([field, all]) => html`<datalist id="values-${field}">!${options(all)}</datalist>`,
  )}`;
}

const maxSuggested = 300;

type Condition = Omit<RuleGiven, 'logic_operator'>;

type Read = { value: string } | { fault: string };

const whole: ReadonlySet<RuleOperator> = new Set(['equals', 'not_equals', 'in', 'not_in']);

const isPlural = (operator: RuleOperator): boolean => operator === 'in' || operator === 'not_in';

const isEmptiness = (operator: RuleOperator): boolean => operator === 'is_empty' || operator === 'is_not_empty';

/** Returns a rule's value as text for users, such as the name of a user or a country. */
export function valueText({ field, operator, value }: Condition, users: readonly User[]): string {
  if (!isPlural(operator)) return wordOf({ field, operator, value }, users);
  return value
    .split(',')
    .map((one) => wordOf({ field, operator, value: one.trim() }, users))
    .join(', ');
}

function wordOf({ field, operator, value }: Condition, users: readonly User[]): string {
  if (field === 'assigned_to') return userWord(value, users);
  if (field === 'location_country' && whole.has(operator) && /^[A-Z]{2}$/i.test(value))
    return countryName(value.toUpperCase());
  if (field === 'verification_status' && isStatus(value)) return verificationWords[value].word;
  if (typeOf(field) === 'instant' && isInstant(value)) {
    const day = dayOf(value);
    return value === boundOf(operator, day) ? day : value;
  }
  return value;
}

const typeOf = (field: string) => fieldType(contactFilterFields, field);

const isStatus = (value: string): value is (typeof verificationStatuses)[number] =>
  Object.hasOwn(verificationWords, value);

/** Returns the name of a user, or the e-mail address if the name is ambiguous. */
function userWord(id: string, users: readonly User[]): string {
  const found = users.find((user) => user.id === id);
  if (!found) return id;
  const isOnly = users.filter(({ name }) => fold(name) === fold(found.name)).length === 1;
  return isOnly && !found.name.includes(',') ? found.name : found.email;
}

/** Converts the day of a rule to an instant. "Is at least" begins with the day. "Is more than" begins after it. */
function boundOf(operator: RuleOperator, day: string): string | undefined {
  if (operator === 'greater_or_equal' || operator === 'less_than') return startOf(day);
  return operator === 'greater_than' || operator === 'less_or_equal' ? endOf(day) : undefined;
}

/**
 * Reads a rule's value as users write it.
 * @param stored current rules of the list. A rule that was not edited keeps its stored value
 */
export async function readRule(
  given: Condition,
  { stored, users }: { stored: readonly Rule[]; users: readonly User[] },
): Promise<Read> {
  const { field, operator, value } = given;
  const same = stored
    .filter((rule) => rule.field === field && rule.operator === operator)
    .find((rule) => unchanged(value, [valueText(rule, users)]) === valueText(rule, users));
  if (same) return { value: same.value };
  if (isEmptiness(operator)) return { value };
  const parts = isPlural(operator) ? value.split(',').map((one) => one.trim()) : [value];
  const read: string[] = [];
  for (const part of parts) {
    const one = await readOne({ field, operator, value: part }, users);
    if ('fault' in one) return one;
    read.push(one.value);
  }
  return { value: read.join(', ') };
}

async function readOne({ field, operator, value }: Condition, users: readonly User[]): Promise<Read> {
  const [text, type] = [value.trim(), typeOf(field)];
  if (field === 'assigned_to') return readUser(text, users);
  if (type === 'uuid') return canonicalId(text) ? { value: text } : { fault: `“${text}” is not an id` };
  if (type === 'instant') return readMoment(text, operator);
  if (type === 'integer')
    return /^[+-]?\d{1,9}$/.test(text) ? { value: text } : { fault: `“${text}” is not a whole number` };
  if (text === '' || !whole.has(operator)) return { value };
  if (field === 'location_country') {
    const code = (await countryCodes())(text);
    return code === '' ? { fault: `“${text}” is not a country` } : { value: code };
  }
  if (field === 'verification_status') {
    const status = verificationStatuses.find((one) => [one, fold(verificationWords[one].word)].includes(fold(text)));
    return status ? { value: status } : { fault: `“${text}” is not a status: write one such as “verified”` };
  }
  return { value };
}

function readUser(text: string, users: readonly User[]): Read {
  const found = users.filter(({ id, name, email }) =>
    [id, fold(email), fold(name)].includes(canonicalId(text) ?? fold(text)),
  );
  if (found.length === 1) return { value: found[0]!.id };
  if (found.length > 1) return { fault: `several users are called “${text}”: write the e-mail address` };
  return { fault: `“${text}” is not a user: write a name or an e-mail address` };
}

function readMoment(text: string, operator: RuleOperator): Read {
  if (isInstant(text)) return { value: text };
  const day = readDay(text);
  if (day === undefined) return { fault: `“${text}” is not a clear date: write it as 2026-11-25` };
  const value = boundOf(operator, day);
  return value === undefined ? { fault: 'choose “is at least” or “is at most” for a date' } : { value };
}

function ruleText(rule: Condition, users: readonly User[]): string {
  const start = `${fieldWord('contacts', rule.field)} ${operatorWords[rule.operator]}`;
  return isEmptiness(rule.operator) ? start : `${start} ${valueText(rule, users)}`;
}

/** Returns rules as sentences. Puts rules joined by AND into one group, because AND binds tighter than OR. */
export function rulesText(rules: readonly Rule[], users: readonly User[]): Html {
  const groups: Html[][] = [];
  for (const rule of rules) {
    const text = html`${ruleText(rule, users)}`;
    if (groups.length === 0 || rule.logic_operator === 'OR') groups.push([text]);
    else groups.at(-1)!.push(text);
  }
  return html`!${groups.map(
    (group, i) => html`<span class="line">!${when(i > 0, quietly('or '))}!${group.join(quietly(' and '))}</span>`,
  )}`;
}

const quietly = (word: string): Html => html`<span class="quiet">${word}</span>`;
