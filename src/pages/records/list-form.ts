import type { FastifyRequest } from 'fastify';
import type { Fault } from '../../errors.ts';
import { countRuleMatches } from '../../queries/crm/contacts.ts';
import { contactFilterFields } from '../../schemas/contacts.ts';
import { fieldType } from '../../schemas/filters.ts';
import {
  ruleFields,
  ruleLimits,
  ruleOperators,
  type List,
  type ListPatch,
  type RuleGiven,
} from '../../schemas/lists.ts';
import type { User } from '../../schemas/users.ts';
import { verificationStatuses } from '../../schemas/verification.ts';
import {
  areaField,
  faultText,
  fieldsOf,
  inputField,
  linesIn,
  select,
  text,
  textInput,
  unchanged,
  values,
  type Choice,
  type Fields,
} from '../base/forms.ts';
import { html, notice, type Html } from '../base/html.ts';
import { countryChoices } from '../base/values.ts';
import { fieldWord, operatorWords, verificationWords } from '../base/words.ts';
import { isPreview, type EditForm } from './editor.ts';
import { usersOf } from './record-edit.ts';
import { mostCounted, numberOf } from './record-list.ts';
import { readRule, valueText } from './rule-words.ts';

/** Rows for new rules in the form. */
const emptyRows = 3;

/** A list as a form holds it, with the values of its rules as they were typed. */
interface ListDraft {
  name: string;
  description: string;
  rules: RuleGiven[];
}

/** Returns the form that was sent. Rows without a field are left out. */
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

/** Returns a stored list as its form shows it. */
const draftOfStored = ({ name, description, rules }: List, users: readonly User[]): ListDraft => ({
  name,
  description,
  rules: rules.map((rule) => ({ ...rule, value: valueText(rule, users) })),
});

/** Returns the body of the API's call that a form stands for: of a stored list, what the form changes. */
export async function listOf(
  request: FastifyRequest,
  stored: List | undefined,
): Promise<{ body: object; faults: Fault[] }> {
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

/** Returns the controls of a list's form: name, description and rules in words. */
export async function listControls(
  request: FastifyRequest,
  { stored, sent, refused: { faults, status } }: EditForm<List>,
): Promise<Html> {
  const users = await usersOf(request);
  const blank = { name: '', description: '', rules: [] };
  const draft = sent ? draftOf(sent) : stored ? draftOfStored(stored, users) : blank;
  const isTried = isPreview(request) && status === 200;
  return html`!${isTried ? await previewOf(request, stored) : ''}
    <div class="card">
      !${inputField({ name: 'name', label: 'Name', faults }, draft.name)}
      !${areaField({ name: 'description', label: 'What it is for', faults }, draft.description)}
    </div>
    <fieldset class="card">
      <legend>Rules</legend>
      <p class="quiet">
        Contacts that match the rules are in the list by themselves. Without rules, you put contacts in by hand. Rules
        joined by “and” belong together; “or” begins other rules, which are enough as well. A date, such as 2026-11-25,
        is a day in UTC.
      </p>
      !${ruleRows(draft.rules)} !${faultText('rules', faults)} !${valueLists(users)}
    </fieldset>`;
}

async function previewOf(request: FastifyRequest, stored: List | undefined): Promise<Html> {
  const { db, caller } = request;
  const { rules = stored?.rules ?? [] } = (await listOf(request, stored)).body as ListPatch;
  if (rules.length === 0) return notice('Without rules, contacts are put into the list by hand.', 'busy');
  const matches = await countRuleMatches(db, caller.customerId, rules, mostCounted);
  return notice(`${numberOf(matches)} contacts match these rules now.`, 'busy');
}

function ruleRows(rules: readonly RuleGiven[]): Html {
  const rows = [...rules, ...Array.from({ length: emptyRows }, () => undefined)].slice(0, ruleLimits.rules);
  return html`<div class="rule-rows">!${rows.map((rule, i) => ruleRow(rule, i + 1))}</div>`;
}

function ruleRow(rule: RuleGiven | undefined, number: number): Html {
  const { field = '', operator = 'equals', value = '', logic_operator = 'AND' } = rule ?? {};
  const names = field === '' || ruleFields.includes(field) ? ruleFields : [...ruleFields, field];
  const choice = (part: string, name: string, choices: readonly Choice[], chosen: string, more = '') =>
    select(html`name="${part}" aria-label="Rule ${number}: ${name}" !${more}`, choices, chosen);
  const joins = [
    ['AND', 'and'],
    ['OR', 'or'],
  ] as const;
  const fields = names.map((name) => [name, fieldWord('contacts', name)] as const);
  const operators = ruleOperators.map((one) => [one, operatorWords[one]] as const);
  return html`<div class="rule-row">
    !${choice('join', 'joined by', joins, logic_operator, number === 1 ? 'class="hidden-first"' : '')}
    !${choice('field', 'field', [['', '–'], ...fields], field)}
    !${choice('operator', 'comparison', operators, operator)}
    !${textInput(html`name="value" aria-label="Rule ${number}: value" autocomplete="off"`, value)}
  </div>`;
}

/** Returns the values that the script suggests, by field. */
const valueLists = (users: readonly User[]): Html => {
  const words = {
    assigned_to: users.filter(({ active }) => active).map(({ name }) => name),
    location_country: countryChoices.map(([, name]) => name),
    verification_status: verificationStatuses.map((one) => verificationWords[one].word),
  };
  return html`!${Object.entries(words).map(
    ([field, all]) =>
      html`<datalist id="values-${field}">
        !${all.slice(0, mostSuggested).map((one) => html`<option>${one}</option>`)}
      </datalist>`,
  )}`;
};

const mostSuggested = 300;
