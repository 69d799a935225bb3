import type { FastifyReply, FastifyRequest } from 'fastify';
import { countRuleMatches } from '../../queries/crm/contacts.ts';
import { contactFilterFields } from '../../schemas/filters.ts';
import { ruleLimits, ruleOperators, unruled, type ListCreate, type RuleGiven } from '../../schemas/lists.ts';
import { field, formFaults, linesIn, option, text, textArea, values, type Faults, type Fields } from '../base/forms.ts';
import { html, notice, type Html } from '../base/html.ts';
import { form, sendPage } from '../base/layout.ts';
import { fieldWord, operatorWords } from '../base/words.ts';
import { mostCounted, numberOf } from './record-list.ts';

/** Rows for new rules in the form. */
const emptyRows = 3;

/** What the form of a list holds. */
export type ListDraft = Required<ListCreate>;

/** Returns the list that a submitted form describes, not validated yet. Rows without a field are left out. */
export function draftOf(fields: Fields): ListDraft {
  const [names, operators, given, joins] = ['field', 'operator', 'value', 'join'].map((name) => values(fields, name));
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

interface Shown {
  title: string;
  action: string;
  back: string;
  draft: ListDraft;
  etag?: string;
  faults?: Faults;
  /** The user asks how many contacts match. */
  isPreview?: boolean;
  status?: number;
}

/** Sends the form of a list: name, description and rules in words. */
export async function sendListForm(request: FastifyRequest, reply: FastifyReply, shown: Shown): Promise<FastifyReply> {
  const { title, action, back, draft, etag, faults = {}, status = 400 } = shown;
  const hasFaults = Object.keys(faults).length > 0;
  const body = html`!${etag === undefined ? '' : html`<input type="hidden" name="etag" value="${etag}" />`}
    !${formFaults(faults, ['name', 'description'])}
    !${shown.isPreview && !hasFaults ? await previewOf(request, draft) : ''}
    <div class="card">
      !${field(
        { name: 'name', label: 'Name', faults },
        (attributes) => html`<input !${attributes} value="${draft.name}" maxlength="255" autocomplete="off" />`,
      )}
      !${field({ name: 'description', label: 'What it is for', faults }, (attributes) =>
        textArea(html`!${attributes} maxlength="5000"`, draft.description),
      )}
    </div>
    <fieldset class="card">
      <legend>Rules</legend>
      <p class="quiet">
        Contacts that match the rules are in the list by themselves. Without rules, you put contacts in by hand. Rules
        joined by “and” belong together; “or” begins other rules, which are enough as well.
      </p>
      !${ruleRows(draft.rules)}
    </fieldset>
    <div class="buttons">
      <button name="do" value="save">Save the list</button>
      <button name="do" value="preview" class="secondary outline">How many match?</button>
      <a role="button" class="secondary outline" href="${back}">Cancel</a>
    </div>`;
  return sendPage(request, reply, {
    title,
    section: '/app/lists',
    status: hasFaults ? status : 200,
    body: form(request, reply, { action, body, attributes: 'data-keep' }),
  });
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
  return html`<div class="rule-row">
    <select name="join" aria-label="Rule ${number}: joined by" !${number === 1 ? 'class="hidden-first"' : ''}>
      !${option('AND', 'and', logic_operator)} !${option('OR', 'or', logic_operator)}
    </select>
    <select name="field" aria-label="Rule ${number}: field">
      !${option('', '–', field)} !${names.map((name) => option(name, fieldWord('contacts', name), field))}
    </select>
    <select name="operator" aria-label="Rule ${number}: comparison">
      !${ruleOperators.map((one) => option(one, operatorWords[one], operator))}
    </select>
    <input name="value" value="${value}" aria-label="Rule ${number}: value" autocomplete="off" />
  </div>`;
}
