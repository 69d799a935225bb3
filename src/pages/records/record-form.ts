import type { TObject } from '@sinclair/typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Fault } from '../../errors.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import { listDeclared } from '../../queries/records/custom-fields.ts';
import { canonicalId } from '../../text/ids.ts';
import { field, faultText, group, textInput, textArea, select, controlsFor, differing, hidden } from '../base/forms.ts';
import type { Choice } from '../base/forms.ts';
import { lookUp, fieldsOf, text, linesIn, asSentBack, unchanged, customName, queryText } from '../base/requests.ts';
import type { Fields } from '../base/requests.ts';
import type { Faults } from '../base/refusals.ts';
import { when, quiet, html, type Html } from '../base/html.ts';
import { readNumber } from '../base/values.ts';
import { fieldWord, countryChoices } from '../base/words.ts';
import { editor, requireRecord, type EditForm } from './editor.ts';
import type { RecordKind, ShownRecord, FormField, FormContext } from './record-kind.ts';
import { phoneReader, type PhoneNumber } from '../../files/phones.ts';
import { faultOfValue, type DeclaredField } from '../../schemas/wire.ts';
import type { Contact } from '../../schemas/contacts.ts';
import type { User } from '../../schemas/accounts.ts';

export const recordEdit = (app: FastifyInstance, kind: RecordKind): void =>
  editor(app, {
    ...kind,
    about: (request) => requireRecord(request, kind.noun, kind.find),
    bodyOf: async (request, stored) => {
      const schema = (stored ? kind.schemas.patch : kind.schemas.create) as TObject;
      const declared = await declaredFor(request, kind);
      const changes = await changesOf(kind.fields, fieldsOf(request), stored, { schema, declared });
      if (stored) return { body: changes };
      const body = { ...kind.blank, ...changes };
      return { body, faults: missingIn(kind, body) };
    },
    controls: (form, request) => controlsOf(request, kind, form),
    verb: 'Create',
    question: async (found, { db, caller }) =>
      html`<strong>${kind.nameOf(found)}</strong> is deleted. This can be undone.
        ${await kind.detaches(db, caller.customerId, found)}`,
    afterDeletion: () => `${kind.path}?done=deleted&n=1`,
  });

const missingIn = ({ needs, object }: RecordKind, body: object): Fault[] =>
  needs
    .filter((group) => !group.some((name) => name in body))
    .map((group) => ({
      path: `/${group[0]}`,
      message: `give one of these: ${group.map((name) => fieldWord(object, name).toLowerCase()).join(', ')}`,
    }));

/**
 * Returns the controls of a form. After a conflict, they keep the user's texts and show the stored texts below them.
 */
async function controlsOf(request: FastifyRequest, kind: RecordKind, form: EditForm<ShownRecord>): Promise<Html> {
  const { stored, sent, faults, isConflict } = form;
  // A link of the record's page opens one group of its fields.
  const { fields } = kind;
  const inGroup = fields.filter(({ group }) => group === queryText(request, 'group'));
  const shown = inGroup.length > 0 ? inGroup : fields;
  const saved = stored ? await textsOfRecord(shown, stored) : {};
  const texts = sent ? textsOf(shown, sent) : saved;
  const state = {
    texts,
    declared: await declaredFor(request, kind),
    custom: stored?.custom_fields ?? {},
    given: sent ?? {},
    faults,
    users: await usersOf(request),
    theirs: isConflict && sent ? differing(saved, sent) : {},
  };
  return html`!${when(isConflict, quiet('Where what is stored now differs from your form, it stands below the field.'))}
  !${recordForm(shown, state, shown === fields)}`;
}

export const declaredFor = (request: FastifyRequest, { object }: Pick<RecordKind, 'object'>) =>
  lookUp(request, listDeclared, object);

export const usersOf = (request: FastifyRequest): Promise<User[]> => lookUp(request, listUsers);

export async function formText({ name, control }: FormField, record: ShownRecord): Promise<string> {
  const value = (record as unknown as Record<string, unknown>)[name];
  if (value === null || value === undefined) return '';
  if (control === 'company') return (value as { company_name: string }).company_name;
  if (control === 'lines') return (value as string[]).join('\n');
  if (control !== 'phones') return typeof value === 'number' ? String(value) : (value as string);
  const { write } = await phoneReader();
  return (value as PhoneNumber[]).map(write).join('\n');
}

const linesOf = (given: string): string[] => {
  const lines = given.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '');
};

/**
 * Reads phone numbers from the lines of a form.
 * @param stored the record's current numbers. A line that shows one of them keeps it unchanged
 */
async function phonesOf(lines: string[], country: string, stored: readonly PhoneNumber[]): Promise<PhoneNumber[]> {
  const { read, write } = await phoneReader();
  const known = new Map(stored.map((phone) => [write(phone), phone]));
  return lines.flatMap((line) => {
    const phones = known.has(line) ? [known.get(line)!] : read(line, country);
    return phones.length > 0 ? phones : [{ country_code: '', number: line }];
  });
}

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
 * Returns the fields that a form changes in a record, or sets in a new one. Leaves out texts that the user did not
 * change.
 * @param stored current record; undefined for a new one
 */
export async function changesOf(
  formFields: readonly FormField[],
  fields: Fields,
  stored: ShownRecord | undefined,
  { schema, declared }: { schema: TObject; declared: readonly DeclaredField[] },
): Promise<Record<string, unknown>> {
  const contact = stored as Partial<Contact> | undefined;
  // The form of one group does not have it.
  const country =
    fields['location_country'] === undefined ? (contact?.location_country ?? '') : text(fields, 'location_country');
  const changes: Record<string, unknown> = {};
  for (const one of formFields) {
    const given = linesIn(fields, one.name);
    if (fields[one.name] === undefined || given === (stored ? asSentBack(await formText(one, stored)) : '')) continue;
    changes[one.name] =
      one.control === 'phones'
        ? await phonesOf(linesOf(given), country, contact?.phone_numbers ?? [])
        : valueOf(one, given, schema);
  }
  const custom = customChanges(fields, declared, stored?.custom_fields ?? {});
  return Object.keys(custom).length > 0 ? { ...changes, custom_fields: custom } : changes;
}

type CustomField = Pick<DeclaredField, 'key' | 'label'> & Partial<DeclaredField>;

function customFieldsOf(declared: readonly DeclaredField[], stored: ShownRecord['custom_fields']): CustomField[] {
  const known = new Set(declared.map(({ key }) => key));
  const others = Object.keys(stored).filter((key) => !known.has(key));
  return [...declared, ...others.map((key) => ({ key, label: key }))];
}

type CustomValue = ShownRecord['custom_fields'][string] | undefined;

const storedValue = (stored: ShownRecord['custom_fields'], key: string): CustomValue =>
  Object.hasOwn(stored, key) ? stored[key] : undefined;

const isOfType = ({ type, choices = [] }: CustomField, stored: CustomValue): boolean =>
  type !== undefined && (stored === undefined || faultOfValue({ type, choices }, stored) === undefined);

/** Returns the text that a form sends for an unchanged custom field. An unchecked checkbox sends an empty text. */
const savedText = (one: CustomField, stored: CustomValue): string =>
  one.type === 'boolean' && isOfType(one, stored) ? (stored === true ? 'true' : '') : String(stored ?? '');

/** Returns the last text of a field. A checked box sends its value after the empty text of a hidden field. */
const lastText = (fields: Fields, name: string): string =>
  ([fields[name] ?? []].flat().at(-1) ?? '').replaceAll('\r\n', '\n');

function customChanges(
  fields: Fields,
  declared: readonly DeclaredField[],
  stored: ShownRecord['custom_fields'],
): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  for (const one of customFieldsOf(declared, stored)) {
    const [name, value] = [customName(one.key), storedValue(stored, one.key)];
    if (fields[name] === undefined) continue;
    const given = lastText(fields, name);
    if (given !== asSentBack(savedText(one, value))) changes[one.key] = customValue(one, given, value);
  }
  const key = text(fields, 'custom_key').trim();
  if (key !== '') changes[key] = linesIn(fields, 'custom_value');
  return changes;
}

/**
 * Converts a form's text to a value of the custom field's type. Returns text that does not fit as it is, and the
 * validation rejects it.
 */
function customValue(one: CustomField, given: string, stored: CustomValue): string | number | boolean | null {
  if (given === '') return one.type === 'boolean' && isOfType(one, stored) ? false : null;
  switch (one.type) {
    case undefined:
      return likeStored(given, stored);
    case 'number':
      return numberIn(given) ?? given;
    case 'url':
      return withScheme(given);
    case 'boolean':
      return given === 'true' || given === 'false' ? given === 'true' : given;
    case 'choice':
      return unchanged(given, one.choices ?? []);
    default:
      return given;
  }
}

/** Matches a number of at most 15 digits, without a unit or needless leading zeros. */
const plainNumber = /^(?=(?:\D*\d){1,15}\D*$)(?:[1-9][\d.,'’\s]*|0?(?:[.,]\d+)?)$/;

/** Converts a text to a number. Returns undefined if it is not a plain number or can mean two, such as `1,249`. */
function numberIn(given: string): number | undefined {
  const [, sign, digits = ''] = /^([-−]?)(.*)$/.exec(given.trim()) ?? [];
  const read = plainNumber.test(digits) ? readNumber(digits) : undefined;
  return read !== undefined && sign !== '' ? -read : read;
}

/** Adds the scheme that people omit: `example.com` → `https://example.com`. */
const withScheme = (given: string): string =>
  /^[\w-]+(\.[\w-]+)+(\/\S*)?$/.test(given.trim()) ? `https://${given.trim()}` : given;

function likeStored(given: string, stored: CustomValue): string | number | boolean {
  if (typeof stored === 'number' && String(Number(given)) === given.trim()) return Number(given);
  if (typeof stored === 'number') return numberIn(given) ?? given;
  if (typeof stored === 'boolean' && /^(true|false)$/.test(given)) return given === 'true';
  return given;
}

interface FormState extends FormContext {
  faults: Faults;
  texts: Readonly<Record<string, string>>;
  declared: readonly DeclaredField[];
  custom: ShownRecord['custom_fields'];
  given: Fields;
  /** Texts by field name that another user has stored since the form was opened. */
  theirs: Readonly<Record<string, string>>;
}

function recordForm(formFields: readonly FormField[], state: FormState, isWhole: boolean): Html {
  const groups = Object.entries(Object.groupBy(formFields, ({ group }) => group));
  return html`!${groups.map(([legend, members]) =>
    group(legend, html`<div class="columns">!${members!.map((one) => control(one, state))}</div>`),
  )}
  !${isWhole ? customForm(state) : ''}`;
}

function control({ name, label, hint, control }: FormField, { faults, texts, theirs, users }: FormState): Html {
  const { input, area, choice } = controlsFor(texts, faults, theirs);
  switch (control) {
    case 'country':
      return choice(name, label, [['', '–'], ...countryChoices], hint);
    case 'user':
      return choice(name, label, userChoices(users, texts[name] ?? ''), hint);
    case 'lines':
    case 'phones':
      return area(name, label, hint, '');
    default: {
      const type = control === 'email' || control === 'number' ? control : 'text';
      const more = control === 'company' ? companySuggestions : 'autocomplete="off"';
      return input(name, label, { hint, type, more: html`maxlength="2048" !${more}` });
    }
  }
}

export const companySuggestions: Html = 'autocomplete="off" data-suggest="/app/companies" data-parameter="search"';

export const userChoices = (users: readonly User[], chosen: string): Choice[] => [
  ['', 'nobody'],
  ...users.filter(({ active, id }) => active || id === chosen).map(({ id, name }) => [id, name] as const),
];

function customForm(state: FormState): Html {
  const { declared, custom, given, faults } = state;
  return group(
    'Your own fields',
    html`<div class="columns">
        !${customFieldsOf(declared, custom).map((one) => customControl(one, state))}
        <label
          >New field
          <input name="custom_key" value="${text(given, 'custom_key')}" maxlength="64" autocomplete="off" />
        </label>
        <label>Its value <input name="custom_value" value="${text(given, 'custom_value')}" autocomplete="off" /></label>
      </div>
      !${faultText('custom_fields', faults)}`,
  );
}

function customControl(one: CustomField, { custom, given, faults }: FormState): Html {
  const [name, stored] = [customName(one.key), storedValue(custom, one.key)];
  const saved = savedText(one, stored);
  const value = given[name] === undefined ? saved : lastText(given, name);
  const hint = value === asSentBack(saved) ? '' : `Stored now: ${String(stored ?? 'nothing')}`;
  return field({ name, label: one.label, hint: given[name] === undefined ? '' : hint, faults }, (attributes) =>
    customInput(one, html`!${attributes} autocomplete="off"`, value, isOfType(one, stored)),
  );
}

/**
 * Returns the control of a custom field. Uses a text input for a value of another type, because special inputs would
 * show it as empty.
 */
function customInput(
  { key, type, choices = [] }: CustomField,
  attributes: Html,
  value: string,
  isTyped: boolean,
): Html {
  if (type === 'choice') {
    const all = choices.includes(value) || value === '' ? choices : [...choices, value];
    return select(attributes, [['', '–'], ...all.map((choice) => [choice, choice] as const)], value);
  }
  if (type === 'long_text') return textArea(attributes, value);
  if (type === 'boolean' && isTyped)
    return html`!${hidden({ [customName(key)]: '' })}
      <input type="checkbox" !${attributes} value="true" !${value === 'true' ? 'checked' : ''} />`;
  // Browsers do not take `1.234,5` in a number input, nor `example.com` in one for addresses.
  const more = type === 'number' ? html`inputmode="decimal"` : type === 'url' ? html`inputmode="url"` : '';
  return textInput(html`!${attributes} !${more}`, value, type === 'date' && isTyped ? type : 'text');
}

export const textsOf = (formFields: readonly FormField[], fields: Fields): Record<string, string> =>
  Object.fromEntries(formFields.map(({ name }) => [name, linesIn(fields, name)]));

const textsOfRecord = async (formFields: readonly FormField[], record: ShownRecord): Promise<Record<string, string>> =>
  Object.fromEntries(
    await Promise.all(formFields.map(async (one) => [one.name, await formText(one, record)] as const)),
  );
