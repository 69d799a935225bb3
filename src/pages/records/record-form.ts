import type { TObject } from '@sinclair/typebox';
import { phoneReader, type PhoneNumber } from '../../files/values/phones.ts';
import type { Contact } from '../../schemas/contacts.ts';
import type { User } from '../../schemas/users.ts';
import {
  asSentBack,
  faultText,
  field,
  linesIn,
  select,
  text,
  textArea,
  textInput,
  type Choice,
  type Faults,
  type Fields,
} from '../base/forms.ts';
import { canonicalId } from '../../text/ids.ts';
import { html, type Html } from '../base/html.ts';
import { countryChoices } from '../base/values.ts';
import type { FormField, ShownRecord, Surroundings } from './record-kind.ts';

/** Returns a field's value as the text that its form shows. */
export async function formText({ name, control }: FormField, record: ShownRecord): Promise<string> {
  const value = (record as unknown as Record<string, unknown>)[name];
  if (value === null || value === undefined) return '';
  if (control === 'company') return (value as { company_name: string }).company_name;
  if (control === 'lines') return (value as string[]).join('\n');
  if (control !== 'phones') return typeof value === 'number' ? String(value) : (value as string);
  const { write } = await phoneReader();
  return (value as PhoneNumber[]).map(write).join('\n');
}

const linesOf = (given: string): string[] =>
  given
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/**
 * Returns the phone numbers that lines of a form stand for.
 * @param stored the record's numbers. Their lines are not read again, because that could change them
 */
async function phonesOf(lines: string[], country: string, stored: readonly PhoneNumber[]): Promise<PhoneNumber[]> {
  const { read, write } = await phoneReader();
  const known = new Map(stored.map((phone) => [write(phone), phone]));
  return lines.flatMap((line) => {
    const phones = known.has(line) ? [known.get(line)!] : read(line, country);
    return phones.length > 0 ? phones : [{ country_code: '', number: line }];
  });
}

/** Returns the value that a text stands for in the API's body. */
function valueOf({ name, control }: FormField, given: string, schema: TObject): unknown {
  const lines = linesOf(given);
  if (control === 'lines' && lines.length > 0) return lines;
  if (control === 'company') return given.trim() === '' ? {} : { name: given.trim() };
  if (given.trim() === '') return isNullable(schema, name) ? null : '';
  // A text that is no number stays a text, which the validation refuses with a message.
  if (control === 'user') return canonicalId(given.trim()) ?? given.trim();
  return control === 'number' && /^\d{1,9}$/.test(given.trim()) ? Number(given) : given.trim();
}

const isNullable = ({ properties }: TObject, name: string): boolean =>
  [(properties[name] as { type?: unknown } | undefined)?.type].flat().includes('null') ||
  // References are nullable in another way: see the schemas of contacts.
  name === 'assigned_to';

/**
 * Returns the members of the API's body that a submitted form changes in a record, or that it sets in a new one. So a
 * value that the form shows in another way than it is stored is not written again.
 * @param stored the record as it is now; undefined for a new one
 * @param schema of the body
 */
export async function changesOf(
  formFields: readonly FormField[],
  fields: Fields,
  stored: ShownRecord | undefined,
  schema: TObject,
): Promise<Record<string, unknown>> {
  const country = text(fields, 'location_country');
  const changes: Record<string, unknown> = {};
  for (const one of formFields) {
    const given = linesIn(fields, one.name);
    if (fields[one.name] === undefined || given === (stored ? asSentBack(await formText(one, stored)) : '')) continue;
    changes[one.name] =
      one.control === 'phones'
        ? await phonesOf(linesOf(given), country, (stored as Partial<Contact> | undefined)?.phone_numbers ?? [])
        : valueOf(one, given, schema);
  }
  const custom = customChanges(fields, stored?.custom_fields ?? {});
  return Object.keys(custom).length > 0 ? { ...changes, custom_fields: custom } : changes;
}

/** Name of the control of a field of the customer's own. Browsers change line breaks in names, too. */
const customName = (key: string): string => `custom.${encodeURIComponent(key)}`;

function customChanges(fields: Fields, stored: ShownRecord['custom_fields']): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(stored)) {
    if (fields[customName(key)] === undefined) continue;
    const given = linesIn(fields, customName(key));
    if (given !== asSentBack(String(value))) changes[key] = given === '' ? null : likeStored(given, value);
  }
  const key = text(fields, 'custom_key').trim();
  if (key !== '') changes[key] = linesIn(fields, 'custom_value');
  return changes;
}

/** Returns a text as a value of the type that the stored one has, if it can be read so. */
function likeStored(given: string, stored: string | number | boolean): string | number | boolean {
  if (typeof stored === 'number' && String(Number(given)) === given.trim()) return Number(given);
  if (typeof stored === 'boolean' && /^(true|false)$/.test(given)) return given === 'true';
  return given;
}

/** What a form shows beside its fields. */
interface FormState extends Surroundings {
  faults: Faults;
  /** Text of each field. */
  texts: Readonly<Record<string, string>>;
  /** The customer's own fields, as they are stored. */
  custom: ShownRecord['custom_fields'];
  /** The submitted form. */
  given: Fields;
  /** Text of a field that somebody else has changed meanwhile, as it is stored now. */
  theirs: Readonly<Record<string, string>>;
}

/** Returns the controls of a record's form, in groups. */
export function recordForm(formFields: readonly FormField[], state: FormState): Html {
  const groups = Object.entries(Object.groupBy(formFields, ({ group }) => group));
  return html`!${groups.map(
    ([group, members]) =>
      html`<fieldset class="card">
        <legend>${group}</legend>
        <div class="grid-fields">!${members!.map((one) => control(one, state))}</div>
      </fieldset>`,
  )}
  !${customForm(state)}`;
}

function control(one: FormField, { faults, texts, theirs, users }: FormState): Html {
  const value = texts[one.name] ?? '';
  const other = theirs[one.name];
  const hint =
    other === undefined ? one.hint : `Stored now: ${other === '' ? 'nothing' : other.replaceAll('\n', ', ')}`;
  return field({ name: one.name, label: one.label, hint, faults }, (attributes) =>
    inputOf(one, value, attributes, users),
  );
}

function inputOf({ control }: FormField, value: string, attributes: Html, users: readonly User[]): Html {
  switch (control) {
    case 'country':
      return select(attributes, [['', '–'], ...countryChoices], value);
    case 'user':
      return select(attributes, userChoices(users, value), value);
    case 'lines':
    case 'phones':
      return textArea(attributes, value);
    default: {
      const type = control === 'email' || control === 'number' ? control : 'text';
      return textInput(html`!${attributes} maxlength="2048" autocomplete="off"`, value, type);
    }
  }
}

/** Returns who can be chosen: users that are active, and the one who is chosen now. */
export const userChoices = (users: readonly User[], chosen: string): Choice[] => [
  ['', 'nobody'],
  ...users.filter(({ active, id }) => active || id === chosen).map(({ id, name }) => [id, name] as const),
];

/** Returns the controls for the customer's own fields: those that the record has, and one more. */
function customForm({ custom, given, faults }: FormState): Html {
  const hintOf = (key: string, value: unknown): Html => {
    const typed = given[customName(key)];
    return typed === undefined || linesIn(given, customName(key)) === asSentBack(String(value))
      ? ''
      : html`<small>Stored now: ${String(value)}</small>`;
  };
  return html`<fieldset class="card">
    <legend>Your own fields</legend>
    <div class="grid-fields">
      !${Object.entries(custom).map(
        ([key, value]) =>
          html`<label
            >${key}
            !${customInput(key, given[customName(key)] === undefined ? String(value) : linesIn(given, customName(key)))}
            !${hintOf(key, value)}
          </label>`,
      )}
      <label
        >New field
        <input name="custom_key" value="${text(given, 'custom_key')}" maxlength="64" autocomplete="off" />
      </label>
      <label>Its value <input name="custom_value" value="${text(given, 'custom_value')}" autocomplete="off" /></label>
    </div>
    !${faultText('custom_fields', faults)}
  </fieldset>`;
}

const customInput = (key: string, value: string): Html =>
  textInput(html`name="${customName(key)}" autocomplete="off"`, value);

/** Returns the texts of all fields of a submitted form. */
export const textsOf = (formFields: readonly FormField[], fields: Fields): Record<string, string> =>
  Object.fromEntries(formFields.map(({ name }) => [name, linesIn(fields, name)]));

/** Returns the texts of all fields of a record. */
export const textsOfRecord = async (
  formFields: readonly FormField[],
  record: ShownRecord,
): Promise<Record<string, string>> =>
  Object.fromEntries(
    await Promise.all(formFields.map(async (one) => [one.name, await formText(one, record)] as const)),
  );
