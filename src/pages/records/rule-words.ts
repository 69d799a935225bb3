import { countryCodes } from '../../files/values/country-codes.ts';
import { isInstant } from '../../schemas/base/formats.ts';
import { contactFilterFields } from '../../schemas/contacts.ts';
import { fieldType } from '../../schemas/filters.ts';
import type { Rule, RuleGiven, RuleOperator } from '../../schemas/lists.ts';
import type { User } from '../../schemas/users.ts';
import { verificationStatuses } from '../../schemas/verification.ts';
import { fold } from '../../text/fold.ts';
import { canonicalId } from '../../text/ids.ts';
import { dayOf, endOf, readDay, startOf } from '../base/days.ts';
import { unchanged } from '../base/forms.ts';
import { html, type Html } from '../base/html.ts';
import { countryName } from '../base/values.ts';
import { fieldWord, operatorWords, verificationWords } from '../base/words.ts';

type Condition = Omit<RuleGiven, 'logic_operator'>;

/** The value as the API takes it, or what is wrong with it. */
type Read = { value: string } | { fault: string };

/** Operators that compare whole values. */
const whole: ReadonlySet<RuleOperator> = new Set(['equals', 'not_equals', 'in', 'not_in']);

/** True if the operator takes several values, separated by commas. */
const isPlural = (operator: RuleOperator): boolean => operator === 'in' || operator === 'not_in';

const isEmptiness = (operator: RuleOperator): boolean => operator === 'is_empty' || operator === 'is_not_empty';

/** Returns a rule's value as people write it: the name of a user or a country, a day, the word for a status. */
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

/** Returns the name of a user, or the e-mail address if others have the same name. */
function userWord(id: string, users: readonly User[]): string {
  const found = users.find((user) => user.id === id);
  if (!found) return id;
  const isOnly = users.filter(({ name }) => fold(name) === fold(found.name)).length === 1;
  return isOnly && !found.name.includes(',') ? found.name : found.email;
}

/** Returns the instant that stands for a day: "is at least" begins with it, "is more than" begins after it. */
function boundOf(operator: RuleOperator, day: string): string | undefined {
  if (operator === 'greater_or_equal' || operator === 'less_than') return startOf(day);
  return operator === 'greater_than' || operator === 'less_or_equal' ? endOf(day) : undefined;
}

/**
 * Reads a rule's value as people write it.
 * @param stored rules of the list: one that nobody has changed keeps its value as it is
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

/** Returns a rule as the words of a sentence, such as `Country is one of Germany, Austria`. */
function ruleText(rule: Condition, users: readonly User[]): string {
  const start = `${fieldWord('contacts', rule.field)} ${operatorWords[rule.operator]}`;
  return isEmptiness(rule.operator) ? start : `${start} ${valueText(rule, users)}`;
}

/** Returns rules as sentences. Those joined by OR stand in groups, because AND binds tighter. */
export function rulesText(rules: readonly Rule[], users: readonly User[]): Html {
  const groups: Rule[][] = [];
  for (const rule of rules)
    if (groups.length === 0 || rule.logic_operator === 'OR') groups.push([rule]);
    else groups.at(-1)!.push(rule);
  return html`<ul class="rules">
    !${groups.map(
      (group, i) =>
        html`<li>
          ${i === 0 ? '' : 'or '}!${group
            .map((rule) => html`<span class="rule">${ruleText(rule, users)}</span>`)
            .join(' and ')}
        </li>`,
    )}
  </ul>`;
}
