import type { Rule } from '../../schemas/lists.ts';
import { html, type Html } from '../base/html.ts';
import { countryName } from '../base/values.ts';
import { fieldWord, operatorWords, verificationWords } from '../base/words.ts';

/** Returns a rule's value as people write it: the name of a country, the word for a status. */
function valueWord(field: string, value: string): string {
  if (field === 'location_country' && /^[A-Z]{2}$/i.test(value)) return countryName(value.toUpperCase());
  if (field === 'verification_status' && Object.hasOwn(verificationWords, value))
    return verificationWords[value as keyof typeof verificationWords].word;
  return value;
}

/** Returns a rule as the words of a sentence, such as `Country is one of Germany, Austria`. */
export function ruleText({ field, operator, value }: Omit<Rule, 'logic_operator'>): string {
  const start = `${fieldWord('contacts', field)} ${operatorWords[operator]}`;
  if (operator === 'is_empty' || operator === 'is_not_empty') return start;
  const values = operator === 'in' || operator === 'not_in' ? value.split(',') : [value];
  return `${start} ${values.map((one) => valueWord(field, one.trim())).join(', ')}`;
}

/** Returns rules as sentences. Those joined by OR stand in groups, because AND binds tighter. */
export function rulesText(rules: readonly Rule[]): Html {
  const groups: Rule[][] = [];
  for (const rule of rules)
    if (groups.length === 0 || rule.logic_operator === 'OR') groups.push([rule]);
    else groups.at(-1)!.push(rule);
  return html`<ul class="rules">
    !${groups.map(
      (group, i) =>
        html`<li>
          ${i === 0 ? '' : 'or '}!${group.map((rule) => html`<span class="rule">${ruleText(rule)}</span>`).join(' and ')}
        </li>`,
    )}
  </ul>`;
}
