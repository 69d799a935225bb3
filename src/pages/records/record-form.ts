import type { TObject } from '@sinclair/typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Fault } from '../../errors.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import { listDeclared } from '../../queries/records/custom-fields.ts';
import { canonicalId } from '../../text/ids.ts';
import { group, controlsFor, differing, hidden, type Choice } from '../base/forms.ts';
import { lookUp, fieldsOf, text, asSentBack, unchanged, customName, keyOf, queryText, ask } from '../base/requests.ts';
import type { Fields } from '../base/requests.ts';
import { when, quiet, html, type Html, sideBySide, readNumber } from '../base/html.ts';
import { fieldWord, countryChoices, phoneNumber } from '../base/words.ts';
import { editor, requireRecord, type Draft, type EditForm } from './editor.ts';
import type { RecordKind, ShownRecord, FormField } from './record-kind.ts';
import { phoneReader, type PhoneNumber } from '../../files/phones.ts';
import { faultOfValue, type DeclaredField, type DeclaredType } from '../../schemas/wire.ts';
import type { Contact } from '../../schemas/contacts.ts';
import type { User } from '../../schemas/accounts.ts';

export const recordEdit = (app: FastifyInstance, kind: RecordKind): void =>
  editor(app, {
    ...kind,
    ...fieldForm(kind),
    about: (request) => requireRecord(request, kind.noun, kind.find),
    verb: 'Create',
    question: async (found, request) =>
      html`<strong>${kind.nameOf(found)}</strong> is deleted. This can be undone.
        ${await ask(request, kind.detaches, found)}`,
    afterDeletion: () => `${kind.path}?done=deleted&n=1`,
  });

interface Fielded extends Partial<Pick<RecordKind, 'object' | 'needs' | 'blank'>> {
  fields: readonly FormField[];
  schemas: { create: object; patch: object };
  /** Texts that the form of a new record shows. */
  suggested?: Readonly<Record<string, string>>;
}

/** Returns how the editor reads and draws a form with a control for each of these fields. */
export const fieldForm = (kind: Fielded) => ({
  bodyOf: async (request: FastifyRequest, stored: object | undefined): Promise<Draft> => {
    const changes = await changesOf(await inputsOf(request, kind, stored), fieldsOf(request));
    if (stored) return { body: changes };
    const body = { ...kind.blank, ...changes };
    return { body, faults: missingIn(kind, body) };
  },
  controls: (form: EditForm<object>, request: FastifyRequest): Promise<Html> => controlsOf(request, kind, form),
});

function missingIn({ needs = [], object = 'contacts' }: Fielded, body: object): Fault[] {
  const missing = needs.filter((group) => !group.some((name) => name in body));
  return missing.map((group) => {
    const words = group.map((name) => fieldWord(object, name).toLowerCase()).join(', ');
    return { path: `/${group[0]}`, message: `give one of these: ${words}` };
  });
}

/** Field of a form for one record. */
interface Input extends FormField {
  choices?: readonly Choice[];
  /** Text that the form sends if the user changes nothing. */
  saved: string;
  /** Converts a text to a value. Returns text that does not fit as it is, and the validation rejects it. */
  read: (given: string, sent: Fields) => unknown;
}

const ownGroup = 'Your own fields';

/** Returns the fields of a record's form: those of all records, the declared ones, and others that the record has. */
async function inputsOf(request: FastifyRequest, kind: Fielded, stored: object | undefined): Promise<Input[]> {
  const { fields, object } = kind;
  const schema = (stored ? kind.schemas.patch : kind.schemas.create) as TObject;
  const builtIn = fields.map(async (one): Promise<Input> => ({
    ...one,
    saved: stored ? await formText(one, stored) : '',
    read: (given, sent) => (one.control === 'phones' ? phonesOf(given, sent, stored) : valueOf(one, given, schema)),
  }));
  const own = object ? ownInputs(await declaredFor(request, { object }), (stored as ShownRecord)?.custom_fields) : [];
  return [...(await Promise.all(builtIn)), ...own];
}

/** Returns the controls of a form. After a conflict, they keep the user's texts and show the stored texts below. */
async function controlsOf(request: FastifyRequest, kind: Fielded, form: EditForm<object>): Promise<Html> {
  const { stored, sent, faults, isConflict } = form;
  // A link of the record's page opens one group of its fields.
  const all = await inputsOf(request, kind, stored);
  const inGroup = all.filter(({ group }) => group === queryText(request, 'group'));
  const shown = inGroup.length > 0 ? inGroup : all;
  const saved = Object.fromEntries(shown.map(({ name, saved }) => [name, saved]));
  // A field that was declared since the form was opened is not in it.
  const inForm = sent ? Object.keys(sent) : [];
  const given = { ...saved, ...Object.fromEntries(inForm.map((name) => [name, lastText(sent!, name)])) };
  const owner = shown.filter(({ control }) => control === 'user').map(({ name }) => [name, request.caller.userId]);
  const blank = { ...saved, ...Object.fromEntries(owner), ...kind.suggested };
  const texts: Record<string, string> = sent || stored ? given : blank;
  const controls = controlsFor(texts, faults, isConflict ? differing(saved, given) : {});
  const users = await usersOf(request);
  const groups = [...Map.groupBy(shown, ({ group }) => group)].map(([legend, inputs]) =>
    group(legend, sideBySide(...inputs.map((one) => control(one, texts[one.name] ?? '', controls, users)))),
  );
  const note = quiet('Where what is stored now differs from your form, it stands below the field.');
  return html`!${when(isConflict, note)} !${groups}`;
}

export const declaredFor = (request: FastifyRequest, { object }: Pick<RecordKind, 'object'>) =>
  lookUp(request, listDeclared, object);

export const usersOf = (request: FastifyRequest): Promise<User[]> => lookUp(request, listUsers);

export async function formText({ name, control }: FormField, record: object): Promise<string> {
  const value = (record as Record<string, unknown>)[name];
  if (value === null || value === undefined) return '';
  if (control === 'company') return (value as { company_name: string }).company_name;
  if (control === 'lines') return (value as string[]).join('\n');
  if (control === 'phones') return (value as PhoneNumber[]).map(phoneNumber).join('\n');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const linesOf = (given: string): string[] => given.split('\n').flatMap((line) => line.trim() || []);

/** Reads the phone numbers of a form. A line that shows a stored number keeps it unchanged. */
async function phonesOf(given: string, sent: Fields, stored: Partial<Contact> = {}): Promise<PhoneNumber[]> {
  const { read } = await phoneReader();
  // The form of one group has no country.
  const country = sent['location_country'] === undefined ? stored.location_country : text(sent, 'location_country');
  const known = new Map(stored.phone_numbers?.map((phone) => [phoneNumber(phone), phone]));
  return linesOf(given).flatMap((line) => {
    const phones = known.has(line) ? [known.get(line)!] : read(line, country ?? '');
    return phones.length > 0 ? phones : [{ country_code: '', number: line }];
  });
}

function valueOf({ name, control }: FormField, given: string, schema: TObject): unknown {
  const lines = linesOf(given);
  if (control === 'lines' && lines.length > 0) return lines;
  if (control === 'company') return given.trim() === '' ? {} : { name: given.trim() };
  if (given.trim() === '') return isNullable(schema, name) ? null : '';
  // A text that is no number stays a text, which the validation refuses with a message.
  if (control === 'amount') return readNumber(given) ?? given.trim();
  if (control === 'yes_no') return given === 'true' || (given === 'false' ? false : given);
  if (control === 'user') return canonicalId(given.trim()) ?? given.trim();
  return control === 'number' && /^\d{1,9}$/.test(given.trim()) ? Number(given) : given.trim();
}

const isNullable = ({ properties }: TObject, name: string): boolean =>
  [(properties[name] as { type?: unknown } | undefined)?.type].flat().includes('null') ||
  // References are nullable in another way: see the schemas of contacts.
  name === 'assigned_to';

/** Returns the values that a form changes in a record, or sets in a new one. Leaves out unchanged texts. */
async function changesOf(inputs: readonly Input[], sent: Fields): Promise<Record<string, unknown>> {
  const changes: Record<string, unknown> = {};
  const own: Record<string, unknown> = {};
  for (const { name, group, saved, read } of inputs) {
    const given = lastText(sent, name);
    if (sent[name] === undefined || given === asSentBack(saved)) continue;
    if (group === ownGroup) own[keyOf(name)] = read(given, sent);
    else changes[name] = await read(given, sent);
  }
  return Object.keys(own).length > 0 ? { ...changes, custom_fields: own } : changes;
}

/** Returns the last text of a field. A checked box sends its value after the empty text of a hidden field. */
const lastText = (fields: Fields, name: string): string =>
  ([fields[name] ?? []].flat().at(-1) ?? '').replaceAll('\r\n', '\n');

type CustomField = Pick<DeclaredField, 'key' | 'label'> & Partial<DeclaredField>;

type CustomValue = ShownRecord['custom_fields'][string] | undefined;

/** Controls of declared types that have another name. */
const ownControls = { long_text: 'area', number: 'amount', boolean: 'tick', date: 'day', url: 'link' } as const;

const controlOf = (type: DeclaredType): FormField['control'] =>
  type === 'text' || type === 'choice' ? type : ownControls[type];

/** A value of another type has a text input, because special inputs would show it as empty. */
function ownInputs(declared: readonly DeclaredField[], stored: ShownRecord['custom_fields'] = {}): Input[] {
  const others = Object.keys(stored).filter((key) => declared.every((one) => one.key !== key));
  const all: CustomField[] = [...declared, ...others.map((key) => ({ key, label: key }))];
  return all.map((one) => {
    const { key, label, type, choices = [] } = one;
    const value = Object.hasOwn(stored, key) ? stored[key] : undefined;
    const isTyped = type && (value === undefined || faultOfValue({ type, choices }, value) === undefined);
    const isBox = type === 'boolean' && isTyped;
    return {
      name: customName(key),
      label,
      hint: '',
      group: ownGroup,
      control: isTyped || type === 'long_text' || type === 'choice' ? controlOf(type) : 'text',
      choices: ['', ...choices].map((choice) => [choice, choice || '–']),
      saved: isBox ? (value === true ? 'true' : '') : String(value ?? ''),
      read: (given) => (given === '' ? (isBox ? false : null) : customValue(one, given, value)),
    };
  });
}

function customValue(one: CustomField, given: string, stored: CustomValue): string | number | boolean {
  // Without a declared type, a value stays of the type that it has.
  switch (one.type ?? typeof stored) {
    case 'number':
      if (!one.type && String(Number(given)) === given.trim()) return Number(given);
      return numberIn(given) ?? given;
    case 'boolean':
      return given === 'true' || given === 'false' ? given === 'true' : given;
    case 'url':
      // People omit the scheme.
      return /^[\w-]+(\.[\w-]+)+(\/\S*)?$/.test(given.trim()) ? `https://${given.trim()}` : given;
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

type Controls = ReturnType<typeof controlsFor>;

function control(
  { name, label, hint, control, choices = [] }: Input,
  value: string,
  of: Controls,
  users: User[],
): Html {
  const { draw, input, area, choice } = of;
  switch (control) {
    case 'country':
      return choice(name, label, [['', '–'], ...countryChoices], hint);
    case 'user':
      return choice(name, label, userChoices(users, value), hint);
    case 'yes_no':
      return choice(name, label, { true: 'yes', false: 'no' }, hint);
    case 'choice':
      return choice(name, label, choices.some(([one]) => one === value) ? choices : [...choices, [value, value]], hint);
    case 'lines':
    case 'phones':
    case 'area':
      return area(name, label, hint, '');
    case 'tick': {
      const box = html`type="checkbox" value="true" !${value === 'true' ? 'checked' : ''}`;
      return draw(name, label, hint, (attributes) => html`!${hidden({ [name]: '' })} <input !${box} !${attributes} />`);
    }
    default: {
      const type = inputTypes[control] ?? 'text';
      const more = control === 'company' ? companySuggestions : html`autocomplete="off" !${inputModes[control] ?? ''}`;
      return input(name, label, { hint, type, more: html`maxlength="2048" !${more}` });
    }
  }
}

const inputTypes: Partial<Record<FormField['control'], string>> = { email: 'email', number: 'number', day: 'date' };

// Browsers do not take `1.234,5` in a number input, nor `example.com` in one for addresses.
const inputModes: Partial<Record<FormField['control'], Html>> = {
  amount: 'inputmode="decimal"',
  link: 'inputmode="url"',
};

export const companySuggestions: Html = 'autocomplete="off" data-suggest="/app/companies" data-parameter="search"';

export const userChoices = (users: readonly User[], chosen: string): Choice[] => [
  ['', 'nobody'],
  ...users.filter(({ active, id }) => active || id === chosen).map(({ id, name }) => [id, name] as const),
];
