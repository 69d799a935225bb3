import type { FastifyRequest } from 'fastify';
import { countRuleMatches } from '../../queries/crm/contacts.ts';
import { contactFilterFields } from '../../schemas/filters.ts';
import { ruleLimits, ruleOperators, unruled, type ListCreate, type RuleGiven } from '../../schemas/lists.ts';
import { areaField, inputField, linesIn, select, text, values, type Choice, type Fields } from '../base/forms.ts';
import { html, notice, type Html } from '../base/html.ts';
import { fieldWord, operatorWords } from '../base/words.ts';
import { isPreview, type EditForm } from './editor.ts';
import { mostCounted, numberOf } from './record-list.ts';

/** Rows for new rules in the form. */
const emptyRows = 3;

/** What the form of a list holds. */
export type ListDraft = Required<ListCreate>;

/** Returns the list that a submitted form describes, not validated yet. Rows without a field are left out. */
export function draftOf(fields: Fields): ListDraft {
  const [names, operators, given, joins] = ['field', 'operator', 'value', 'join'].map((name) =>
    values(fields, name, ruleLimits.rules),
  );
  const rows = names!.map((name, i) => ({
    // A field of the customer's own is written with its key in the value `own`.
    field: name,
    operator: (operators![i] ?? 'equals') as RuleGiven['operator'],
    value: given![i] ?? '',
    logic_operator: joins![i] === 'OR' ? ('OR' as const) : ('AND' as const),
  }));
  const rules = rows.filter((row) => row.field !== '');
  return { name: text(fields, 'name').trim(), description: linesIn(fields, 'description').trim(), rules };
}

/** Returns the controls of a list's form: name, description and rules in words. */
export async function listControls(
  request: FastifyRequest,
  { stored, sent, refused: { faults, status } }: EditForm<ListDraft>,
): Promise<Html> {
  const draft = sent ? draftOf(sent) : (stored ?? { name: '', description: '', rules: [] });
  const isTried = isPreview(request) && status === 200;
  return html`!${isTried ? await previewOf(request, draft) : ''}
    <div class="card">
      !${inputField({ name: 'name', label: 'Name', faults }, draft.name)}
      !${areaField({ name: 'description', label: 'What it is for', faults }, draft.description)}
    </div>
    <fieldset class="card">
      <legend>Rules</legend>
      <p class="quiet">
        Contacts that match the rules are in the list by themselves. Without rules, you put contacts in by hand. Rules
        joined by “and” belong together; “or” begins other rules, which are enough as well.
      </p>
      !${ruleRows(draft.rules)}
    </fieldset>`;
}

async function previewOf({ db, caller }: FastifyRequest, { rules }: ListDraft): Promise<Html> {
  if (rules.length === 0) return notice('Without rules, contacts are put into the list by hand.', 'busy');
  const matches = await countRuleMatches(db, caller.customerId, rules, mostCounted);
  return notice(`${numberOf(matches)} contacts match these rules now.`, 'busy');
}

const ruleFields = Object.keys(contactFilterFields.types).filter((name) => !unruled.includes(name));

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
    <input name="value" value="${value}" aria-label="Rule ${number}: value" autocomplete="off" />
  </div>`;
}
