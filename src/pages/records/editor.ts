import type { FastifyInstance, FastifyRequest } from 'fastify';
import { clearNumber } from '../../files/values.ts';
import type { Transaction } from '../../database/db.ts';
import { preconditionFailed, type Fault } from '../../errors.ts';
import { statuses } from '../../plugins/error-handler.ts';
import type { DeleteRecord, FindRecords, UpdateRecord } from '../../queries/records/finders.ts';
import { etagOf, canonicalId } from '../../text/ids.ts';
import { pointerTo } from '../../text/json.ts';
import { compile } from '../../validation/validator.ts';
import { forMembers, urlOf, backPath, withUndo, formRoutes, question } from '../base/layout.ts';
import type { PageAccess, FormPage } from '../base/layout.ts';
import { hidden, group, controlsFor, differing, rowAct, type Choice } from '../base/forms.ts';
import { once, lookUp, write, sentEarlier, fieldsOf, idOf, sentText, required, notSent } from '../base/requests.ts';
import { requireValid, text, asSentBack, unchanged, conflictText, customName, keyOf } from '../base/requests.ts';
import { queryText, ask, passing, sentence, type Fields, type Refused } from '../base/requests.ts';
import { when, link, linkButton, pathWith, notice, html, quiet, card, folded, sideBySide } from '../base/html.ts';
import { readNumber, type Html } from '../base/html.ts';
import type { TObject } from '@sinclair/typebox';
import { listUsers } from '../../queries/accounts/users.ts';
import { listDeclared } from '../../queries/records/custom-fields.ts';
import { fieldWord, countryChoices, currencyChoices, phoneNumber } from '../base/words.ts';
import { aboutOf, companyKind, type RecordKind, type ShownRecord, type FormField } from './kinds.ts';
import { phoneReader } from '../../files/phones.ts';
import { faultOfValue, type DeclaredField, type DeclaredType } from '../../schemas/wire.ts';
import type { Company } from '../../schemas/companies.ts';
import type { Contact, ContactCreate } from '../../schemas/contacts.ts';
import { minTextLength } from '../../filters/to-sql.ts';
import { externalName, fold, words, type PhoneNumber } from '../../text/fold.ts';
import type { User } from '../../schemas/accounts.ts';

interface Editable<Row> {
  path: string;
  noun: string;
  /** Returns the noun of a record, or of a new one. Default: `noun`. */
  nounOf?: (row: Row | undefined) => string;
  schemas: { create: object; patch: object };
  about: (request: FastifyRequest) => Promise<Row>;
  nameOf: (row: Row) => string;
  /** Returns the version of a record, to detect changes by others. Default: a hash of the record. */
  tagOf?: (row: Row) => string;
  bodyOf: (request: FastifyRequest, stored: Row | undefined) => Promise<Draft> | Draft;
  controls: (form: EditForm<Row>, request: FastifyRequest) => Promise<Html> | Html;
  /**
   * Returns a notice of what the user may not want, such as a second record of the same person. Returns an empty text or
   * undefined if there is nothing. The user can save the form all the same.
   */
  doubt?: (request: FastifyRequest, body: never, id?: string) => Promise<Html | undefined>;
  /** Further buttons. A button with the name `do` and the value `preview` only shows the form again. */
  buttons?: Html;
  create: (sql: Transaction, customerId: string, body: never, userId: string) => Promise<string>;
  update: UpdateRecord<never>;
  remove?: DeleteRecord;
  question?: (row: Row, request: FastifyRequest) => Html | Promise<Html>;
  /** Returns the path to which a form leads back. Default: the record's page. */
  back?: (row: Row, request: FastifyRequest) => string;
  access?: PageAccess;
}

/** Body of an API request, as a form describes it, and the faults that were found while reading the form. */
export interface Draft {
  body: object;
  faults?: Fault[];
  /** Creates other records to which the body refers, in the same transaction. Returns the body with their ids. */
  complete?: (sql: Transaction) => Promise<object>;
}

export interface EditForm<Row> extends Refused {
  stored: Row | undefined;
  sent: Fields | undefined;
  isConflict: boolean;
}

const ownerNames: ReadonlySet<string> = new Set(['assigned_to', 'user_id_assigned']);

type BodyIn = (sql: Transaction) => Promise<never>;

/**
 * Adds the forms that create, change and delete a record. If the record has changed since a form was opened, shows the
 * form again.
 */
export function editor<Row extends { id: string }>(app: FastifyInstance, kind: Editable<Row>): void {
  const { path, noun, nounOf = () => noun, about, remove, access = forMembers, tagOf = etagOf } = kind;
  const below = path.replace('/app', '');
  // `in` is the list from which the user came to the record.
  const backOf = kind.back ?? (({ id }: Row, request) => pathWith(`${path}/${id}`, { in: queryText(request, 'in') }));

  formRoutes(app, `${below}/new`, access, {
    show,
    act: async (request) => {
      if (rowAct(request) !== '') return notSent;
      const { customerId, userId } = request.caller;
      const bodyIn = await read(request, kind.schemas.create);
      if (typeof bodyIn !== 'function') return bodyIn;
      const id = await once(request, async (sql) => kind.create(sql, customerId, await bodyIn(sql), userId));
      const told = { done: id === undefined ? 'sent' : 'created', made: id };
      if (queryText(request, 'back') !== '') return withUndo(request, pathWith(backPath(request, path), told));
      return id === undefined ? `${path}?done=sent` : `${path}/${id}?done=created`;
    },
  });

  formRoutes(app, `${below}/:id/edit`, access, {
    show,
    act: async (request) => {
      if (rowAct(request) !== '') return notSent;
      const { customerId } = request.caller;
      const [found, etag] = [await about(request), sentText(request, 'etag')];
      const saved = pathWith(backOf(found, request), { done: 'changed' });
      const isCurrent = etag === tagOf(found);
      if (!isCurrent && (await sentEarlier(request)) === 'same') return saved;
      const bodyIn = await read(request, kind.schemas.patch, found);
      if (typeof bodyIn !== 'function') return bodyIn;
      if (!isCurrent) throw preconditionFailed();
      await once(request, async (sql) => kind.update(sql, customerId, found.id, await bodyIn(sql), etag));
      return saved;
    },
  });

  if (!remove) return;
  question(app, `${below}/:id/delete`, access, {
    about,
    title: (found) => `Delete the ${nounOf(found)}`,
    text: (found, request) => kind.question?.(found, request) ?? '',
    back: backOf,
    refusal: 'Keep it',
    etag: tagOf,
    act: async (request, found) => {
      await write(request, remove, found.id, sentText(request, 'etag'));
      return withUndo(request, pathWith(kind.back?.(found, request) ?? path, { done: 'deleted' }));
    },
  });

  /** Reads and checks a form. Returns the function that completes its body, or why the form is shown again. */
  async function read(request: FastifyRequest, schema: object, stored?: Row): Promise<Refused | BodyIn> {
    const { body, faults = [], complete } = await kind.bodyOf(request, stored);
    const owners = Object.entries(body).filter(([name, id]) => ownerNames.has(name) && id);
    const users = owners.length > 0 ? await usersOf(request) : [];
    const unknown = owners.filter(([, owner]) => users.every(({ id }) => id !== owner));
    const others = unknown.map(([name]) => ({ path: `/${name}`, message: 'choose a colleague' }));
    requireValid(schema, body, [...faults, ...others]);
    if (isPreview(request)) return notSent;
    const doubt = await kind.doubt?.(request, body as never, stored?.id);
    // The form may have been changed since, so an answer holds only for what was asked. What the form itself has created
    // is no reason to ask.
    if (doubt && sentText(request, 'doubt') !== etagOf({ doubt }) && !(await sentEarlier(request)))
      return { faults: {}, status: statuses.conflict, doubt };
    return async (sql) => ((await complete?.(sql)) ?? body) as never;
  }

  async function show(request: FastifyRequest, refused: Refused): Promise<FormPage> {
    const sent = request.method === 'POST' ? fieldsOf(request) : undefined;
    const isNew = !('id' in (request.params as object));
    const found = isNew ? undefined : about(request);
    const stored = await (sent ? found?.catch(passing('not_found', undefined)) : found);
    const isGone = !isNew && !stored;
    // Buttons that edit rows, and the preview, do not save. The old etag stays, so the next save still finds the conflict.
    const isSaved = sent !== undefined && rowAct(request) === '' && !isPreview(request);
    const isConflict = isSaved && stored !== undefined && sentText(request, 'etag') !== tagOf(stored);
    const shown = isConflict ? { ...refused, faults: { ...refused.faults, '': conflictText } } : refused;
    const etag = stored && (!sent || isConflict) ? tagOf(stored) : sentText(request, 'etag');
    return {
      refused: shown,
      ...((stored ?? queryText(request, 'back')) && { action: urlOf(request) }),
      ...(refused.doubt && { above: refused.doubt }),
      ...(isGone && { above: html`<p><a href="/app/deleted">Restore it</a>, then save what this form shows.</p>` }),
      title: stored ? `Change ${kind.nameOf(stored)}` : isGone ? `A deleted ${noun}` : `New ${nounOf(stored)}`,
      body: html`!${stored ? hidden({ etag }) : ''}
        !${await kind.controls({ ...shown, stored, sent, isConflict }, request)}
        <div class="buttons stay">
          !${refused.doubt ? html`!${hidden({ doubt: etagOf({ doubt: refused.doubt }) })} <button>Save it all the same</button>` : html`<button name="do" value="save">${isNew ? 'Create' : 'Save'} the ${nounOf(stored)}</button>`}
          !${kind.buttons ?? ''}
          !${linkButton('Cancel', stored ? backOf(stored, request) : backPath(request, path), 'secondary outline', 'data-close')}
        </div>`,
      attributes: 'data-keep',
    };
  }
}

export async function requireRecord<Row>(request: FastifyRequest, noun: string, find: FindRecords<Row>): Promise<Row> {
  const [found] = await lookUp(request, find, [idOf(request, noun)]);
  return required(found, noun);
}

/** Returns a warning if another record has the same name, else an empty text. */
export function nameTaken(noun: string, path: string, other?: { id: string; name: string }): Html {
  if (!other) return '';
  const advice = html`!${link(other.name, `${path}/${other.id}`)}. Change the name, or save it all the same.`;
  return notice(`There is a ${noun} of this name already:`, 'warning', advice);
}

export const isPreview = (request: FastifyRequest): boolean => sentText(request, 'do') === 'preview';

/** @param list parameters of the list from which the user came, and through which the user goes on */
export const editLinks = (path: string, list = ''): Html =>
  html`!${linkButton('Edit', pathWith(`${path}/edit`, { in: list }), 'secondary outline')}
  !${linkButton('Delete', pathWith(`${path}/delete`, { in: list }), 'danger outline', 'data-dialog')}`;

export const recordEdit = (app: FastifyInstance, kind: RecordKind): void =>
  editor(app, {
    ...kind,
    ...fieldForm(kind),
    about: (request) => requireRecord(request, kind.noun, kind.find),
    doubt: (request, body, id) => twinsOf(kind, request, body, id),
    question: async (found, request) =>
      html`<strong>${kind.nameOf(found)}</strong> will be deleted. This can be undone.
        ${await kind.detaches(request, found)}`,
  });

/** Returns a warning of records that may be the one that a form describes, or of companies like its new one. */
async function twinsOf(kind: RecordKind, request: FastifyRequest, body: Partial<Company & ContactCreate>, id?: string) {
  const { company_name: own = '', company: { name = own } = {} } = body;
  const [companies, ...found] = await Promise.all([
    companiesLike(request, name),
    ...kind.twins(body).map((filters) => ask(request, kind.list, { filters, paginate: { limit: 3 } })),
  ]);
  const twins = [...(own === '' ? [] : companies), ...found.flatMap(({ rows }) => rows)];
  const rows = new Map(twins.map((row) => [row.id, row] as const));
  rows.delete(id ?? '');
  const isNew = own === '' && companies.every(({ company_name }) => fold(company_name) !== fold(name));
  const warningOf = (text: string, of: RecordKind, some: readonly ShownRecord[]) => {
    const links = some
      .slice(0, 3)
      .map((row) => html`!${link(of.nameOf(row), `${of.path}/${row.id}`)} ${aboutOf(of, row)}`);
    return when(some.length > 0, notice(text, 'warning', links.join('; ')));
  };
  const near = isNew ? warningOf(`“${name}” will be a new company. You have:`, companyKind, companies) : '';
  return warningOf(`You may have this ${kind.noun} already:`, kind, [...rows.values()]) + near;
}

/** Returns companies of this name, also in another legal form, such as `Navy Ltd` for `Navy`. */
async function companiesLike(request: FastifyRequest, name: string) {
  const said = externalName(name);
  // The search finds words as they are stored, with the marks between them.
  const terms = words(name).filter((word) => said.includes(word));
  // Shorter words are in no index.
  const search = terms.some((term) => term.length >= minTextLength) ? terms.join(' ') : '';
  const asked = [{ company_name: name }, { search }].filter((one) => !Object.values(one).includes(''));
  const pages = asked.map((filters) =>
    ask(request, companyKind.list, { filters, paginate: { limit: 100 } }).catch(passing('unavailable', { rows: [] })),
  );
  const rows = (await Promise.all(pages)).flatMap((page) => page.rows);
  return rows.filter((row) => externalName(row.company_name) === said);
}

interface Fielded extends Partial<Pick<RecordKind, 'object' | 'needsOneOf' | 'suggested'>> {
  fields: readonly FormField[];
  schemas: { create: TObject; patch: object };
}

/** Returns how the editor reads and draws a form with a control for each of these fields. */
export const fieldForm = (kind: Fielded) => ({
  bodyOf: async (request: FastifyRequest, stored: object | undefined): Promise<Draft> => {
    const { body, faults } = changesOf(await inputsOf(request, kind, stored), fieldsOf(request));
    return { body, faults: stored ? faults : [...faults, ...missingIn(kind, body)] };
  },
  controls: (form: EditForm<object>, request: FastifyRequest): Promise<Html> => controlsOf(request, kind, form),
});

function missingIn({ needsOneOf = [], object = 'contacts' }: Fielded, body: object): Fault[] {
  const missing = needsOneOf.filter((group) => !group.some((name) => name in body));
  const words = (group: readonly string[]) => group.map((name) => fieldWord(object, name).toLowerCase()).join(', ');
  return missing.map((group) => ({ path: `/${group[0]}`, message: `give one of these: ${words(group)}` }));
}

type Refuse = (message: string) => void;

export interface Input extends FormField {
  choices?: readonly Choice[];
  /** Text that the form sends if the user changes nothing. */
  saved: string;
  /**
   * Converts a text to a value. Returns text that does not fit as it is, and the validation rejects it. Calls `refuse`
   * with a message that is better than that of the validation.
   */
  read: (given: string, sent: Fields, refuse: Refuse) => unknown;
}

export const ownGroup = 'Your own fields';

/**
 * Returns the fields of a record's form: those of all records, the declared ones, and others that the record has.
 * @param known the declared fields, if the caller has read them
 */
export async function inputsOf(
  request: FastifyRequest,
  kind: Fielded,
  stored: object | undefined,
  known?: readonly DeclaredField[],
): Promise<Input[]> {
  const { fields, object } = kind;
  const schema = (stored ? kind.schemas.patch : kind.schemas.create) as TObject;
  const builtIn = fields.map((one): Input => ({
    ...one,
    saved: stored ? formText(one, stored) : '',
    read: (given, sent, refuse) =>
      one.control === 'phones' ? phonesOf(given, sent, refuse, stored) : valueOf(one, given, schema, refuse),
  }));
  const declared = known ?? (object ? await declaredFor(request, { object }) : []);
  const own = object ? ownInputs(declared, (stored as ShownRecord)?.custom_fields) : [];
  return [...builtIn, ...own];
}

/** Returns the controls of a form. After a conflict, they keep the user's texts and show the stored texts below. */
async function controlsOf(request: FastifyRequest, kind: Fielded, form: EditForm<object>): Promise<Html> {
  const { stored, sent, faults, isConflict } = form;
  // A link of the record's page opens one group of its fields.
  const all = await inputsOf(request, kind, stored);
  const inGroup = all.filter(({ group }) => group === queryText(request, 'group'));
  const shown = inGroup.length > 0 ? inGroup.map((one) => ({ ...one, isRare: false })) : all;
  const saved = Object.fromEntries(shown.map(({ name, saved }) => [name, saved]));
  // A field that was declared since the form was opened is not in it.
  const inForm = sent ? Object.keys(sent) : [];
  const given = { ...saved, ...Object.fromEntries(inForm.map((name) => [name, lastText(sent!, name)])) };
  const owner = shown.filter(({ control }) => control === 'user').map(({ name }) => [name, request.caller.userId]);
  const suggested = sent || stored ? {} : { ...Object.fromEntries(owner), ...(await kind.suggested?.(request)) };
  const texts: Record<string, string> = { ...given, ...suggested };
  const changed = differing(saved, given);
  // The type of a company that came with a contact is empty, and may stay so.
  const required = kind.schemas.create.required?.filter((name) => !stored || saved[name] !== '');
  const controls = controlsFor(texts, faults, isConflict ? changed : {}, required);
  const users = await usersOf(request);
  const draw = (inputs: readonly Input[]) =>
    sideBySide(...inputs.map((one) => control(one, texts[one.name] ?? '', controls, users)));
  const { rare = [], usual = [] } = Object.groupBy(shown, ({ isRare }) => (isRare ? 'rare' : 'usual'));
  const groups = [...Map.groupBy(usual, ({ group }) => group)].map(([legend, inputs]) =>
    legend === '' ? draw(inputs) : group(legend, draw(inputs)),
  );
  const isOpen = rare.some(({ name }) => faults[name] || Object.hasOwn(changed, name));
  const more = when(rare.length > 0, card(folded('More fields', draw(rare), isOpen)));
  const [needed] = stored ? [] : missingIn(kind, {});
  const needs = needed ? quiet(sentence(needed.message)) : '';
  const note = when(isConflict, quiet('Where what is stored now differs from your form, it stands below the field.'));
  return html`!${needs} !${note} !${groups} !${more}`;
}

export const declaredFor = (request: FastifyRequest, { object }: Pick<RecordKind, 'object'>) =>
  lookUp(request, listDeclared, object);

export const usersOf = (request: FastifyRequest): Promise<User[]> => lookUp(request, listUsers);

export function formText({ name, control }: FormField, record: object): string {
  const value = Object.hasOwn(record, name) ? (record as Record<string, unknown>)[name] : undefined;
  if (value === null || value === undefined) return '';
  if (control === 'company') return (value as { company_name: string }).company_name;
  if (control === 'lines') return (value as string[]).join('\n');
  if (control === 'phones') return (value as PhoneNumber[]).map(lineOf).join('\n');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const linesOf = (given: string): string[] => given.split('\n').flatMap((line) => line.trim() || []);

const { read, readText } = await phoneReader();

/** Returns a phone number as one line of a form, although a stored one can have line breaks. */
const lineOf = (phone: PhoneNumber): string => phoneNumber(phone).replaceAll(/\s+/g, ' ').trim();

/** Reads the phone numbers of a form. A line that shows a stored number keeps it unchanged. */
function phonesOf(given: string, sent: Fields, refuse: Refuse, stored: Partial<Contact> = {}): PhoneNumber[] {
  // The form of one group has no country.
  const country = sent['location_country'] === undefined ? stored.location_country : text(sent, 'location_country');
  const known = [...(stored.phone_numbers ?? [])];
  return linesOf(given).flatMap((line) => {
    const at = known.findIndex((phone) => lineOf(phone) === line);
    const phones = at === -1 ? read(line, country ?? '') : known.splice(at, 1);
    if (phones.length === 0) refuse(`“${line}” is not a phone number`);
    return phones;
  });
}

const isYearOfBirth = (year: number): boolean => !(year < 1900 || year > new Date().getFullYear());

function valueOf({ name, control }: FormField, given: string, schema: TObject, refuse: Refuse): unknown {
  const lines = linesOf(given);
  if (control === 'lines' && lines.length > 0) return lines;
  if (control === 'company') return given.trim() === '' ? {} : { name: given.trim() };
  if (given.trim() === '') return compile(schema.properties[name]!).isValid(null) ? null : '';
  const isTooLong = given.replaceAll(/\D/g, '').length > 15; // ITU-T E.164
  if (name === 'mobile_phone' && (isTooLong || readText(given, '') === undefined))
    refuse(`“${given}” is not a phone number`);
  if (name === 'birth_year' && !isYearOfBirth(Number(given))) refuse('is not a year of birth (such as 1985)');
  if (control === 'url' && !/^\S+\.\S+$/.test(given.trim())) refuse('is not a web address (such as example.com)');
  // A text that is no number stays a text, which the validation refuses with a message.
  if (control === 'amount') return readNumber(given) ?? given.trim();
  if (control === 'yes_no') return given === 'true' || (given === 'false' ? false : given);
  if (control === 'user') return canonicalId(given.trim()) ?? given.trim();
  return control === 'number' && /^\d{1,9}$/.test(given.trim()) ? Number(given) : given.trim();
}

/** Returns the values that a form changes in a record, or sets in a new one. Leaves out unchanged texts. */
function changesOf(inputs: readonly Input[], sent: Fields) {
  const [body, own]: Record<string, unknown>[] = [{}, {}];
  const faults: Fault[] = [];
  for (const { name, group, saved, read } of inputs) {
    const given = lastText(sent, name);
    if (sent[name] === undefined || given === asSentBack(saved)) continue;
    const [values, path] = group === ownGroup ? [own!, ['custom_fields', keyOf(name)]] : [body!, [name]];
    values[path.at(-1)!] = read(given, sent, (message) => faults.push({ path: pointerTo(path), message }));
  }
  return { body: Object.keys(own!).length > 0 ? { ...body, custom_fields: own } : body!, faults };
}

/** Returns the last text of a field. A checked box sends its value after the empty text of a hidden field. */
const lastText = (fields: Fields, name: string): string =>
  ([fields[name] ?? []].flat().at(-1) ?? '').replaceAll('\r\n', '\n');

type CustomField = Pick<DeclaredField, 'key' | 'label'> & Partial<DeclaredField>;

type CustomValue = ShownRecord['custom_fields'][string] | undefined;

const controlOfDeclared = { long_text: 'area', number: 'amount', boolean: 'tick', date: 'day', url: 'link' } as const;

const controlOf = (type: DeclaredType): FormField['control'] =>
  type === 'text' || type === 'choice' ? type : controlOfDeclared[type];

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
      read: (text, _sent, refuse) => {
        if (text === '') return isBox ? false : null;
        const given = customValue(one, text, value);
        const fault = type && faultOfValue({ type, choices }, given);
        if (fault) refuse(fault);
        return given;
      },
    };
  });
}

function customValue(one: CustomField, given: string, stored: CustomValue): string | number | boolean {
  // Without a declared type, a value stays of the type that it has.
  const type = one.type ?? typeof stored;
  if (type === 'number') {
    if (!one.type && String(Number(given)) === given.trim()) return Number(given);
    // A code is not a number, such as `00123`.
    return /^0\d/.test(given.trim()) ? given : (clearNumber(given) ?? given);
  }
  if (type === 'boolean') return given === 'true' || given === 'false' ? given === 'true' : given;
  if (type === 'choice') return unchanged(given, one.choices ?? []);
  // People omit the scheme.
  const isAddress = type === 'url' && /^[\w-]+(\.[\w-]+)+(\/\S*)?$/.test(given.trim());
  return isAddress ? `https://${given.trim()}` : given;
}

type Controls = ReturnType<typeof controlsFor>;

function control(one: Input, value: string, of: Controls, users: User[]): Html {
  const { name, label, hint, control, choices = currencyChoices } = one;
  const { draw, input, area, choice } = of;
  if (control === 'country') return choice(name, label, [['', '–'], ...countryChoices], hint);
  if (control === 'user') return choice(name, label, userChoices(users, value), hint);
  if (control === 'yes_no') return choice(name, label, { true: 'yes', false: 'no' }, hint);
  if (control === 'choice' || control === 'currency')
    return choice(name, label, choices.some(([one]) => one === value) ? choices : [...choices, [value, value]], hint);
  if (control === 'lines' || control === 'phones' || control === 'area') return area(name, label, hint, '');
  if (control === 'tick') {
    const box = html`type="checkbox" value="true" !${value === 'true' ? 'checked' : ''}`;
    return draw(name, label, hint, (attributes) => html`!${hidden({ [name]: '' })} <input !${box} !${attributes} />`);
  }
  const more = control === 'company' ? companySuggestions : html`autocomplete="off" !${inputModes[control] ?? ''}`;
  return input(name, label, { hint, type: inputTypes[control] ?? 'text', more: html`maxlength="2048" !${more}` });
}

const inputTypes: Partial<Record<FormField['control'], string>> = { email: 'email', number: 'number', day: 'date' };

// Browsers do not take `1.234,5` in a number input, nor `example.com` in one for addresses.
const inputModes: Partial<Record<FormField['control'], Html>> = {
  amount: 'inputmode="decimal"',
  link: 'inputmode="url"',
};

const suggestionsOf = (table: string): Html =>
  html`autocomplete="off" data-suggest="/app/${table}" data-parameter="search"`;

export const companySuggestions = suggestionsOf('companies');

export const contactSuggestions = suggestionsOf('contacts');

export const recordSuggestions = suggestionsOf('search');

export const userChoices = (users: readonly User[], chosen: string): Choice[] => [
  ['', 'nobody'],
  ...users.filter(({ active, id }) => active || id === chosen).map(({ id, name }) => [id, name] as const),
];
