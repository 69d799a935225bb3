import type { FastifyInstance, FastifyRequest } from 'fastify';
import { actorOf } from '../plugins/auth.ts';
import { statuses } from '../plugins/error-handler.ts';
import { declareField, removeDeclaration } from '../queries/accounts/customers.ts';
import { listCustomFields, listDeclared } from '../queries/records/custom-fields.ts';
import { builtInFields } from '../schemas/fields.ts';
import { fold, words } from '../text/fold.ts';
import { Declaration, KeyParams, type DeclaredField, type DeclaredObject } from '../schemas/wire.ts';
import { forAdmins, addPage, formRoutes, question, type FormPage } from './base/layout.ts';
import { versionField, controlsFor, hidden } from './base/forms.ts';
import { lookUp, search, write, givenIn, linesIn, textsIn, required, requireCurrent } from './base/requests.ts';
import { requireValid, invalid, type Refused } from './base/requests.ts';
import { when, acts, bullets, table, linkButton, buttons, html, link, panel, pathWith, quiet } from './base/html.ts';
import { folded, type Html, type Column } from './base/html.ts';
import { plain, typeWords } from './base/words.ts';

const section = '/app/fields';

export async function fields(app: FastifyInstance): Promise<void> {
  addPage(app, '/fields', forAdmins, async (request) => {
    const lists = objects.map(async (object) => listOf(object, await search(request, listCustomFields, object)));
    return {
      title: 'Fields',
      lead: 'What is known about contacts and companies. Add fields of your own for what no built-in field holds, such as the end of a contract: they are in forms, tables, imports and rules of lists.',
      done: {
        saved: 'The field is saved. Values are checked when they are written from now on.',
        removed: 'The type is removed. The values stay.',
      },
      body: html`!${await Promise.all(lists)}`,
    };
  });

  for (const object of objects) {
    const path = `/fields/${object}`;

    for (const form of [`${path}/new`, `${path}/:key/edit`])
      formRoutes(app, form, forAdmins, {
        show: (request, refused) => showForm(request, object, refused),
        act: (request) => save(request, object),
      });

    question(app, `${path}/:key/remove`, forAdmins, {
      about: (request) => requireDeclared(request, object),
      title: 'Remove the type',
      text: ({ key, label }) =>
        html`<p>The values of <strong>${label}</strong> stay in the ${object}, under the key <code>${key}</code>.</p>
          <p>Its name, type and choices go. It can then have any value, and is no longer in rules and tables.</p>`,
      act: async (request, { key }) => {
        await write(request, removeDeclaration, { object, key }, actorOf(request));
        return `${section}?done=removed`;
      },
    });
  }
}

const objects: readonly DeclaredObject[] = ['contacts', 'companies'];

const builtInOf = (object: DeclaredObject) =>
  builtInFields(object === 'companies' ? 'company' : object).map(({ name, ...one }) => ({ ...one, key: name }));

const pathOf = (object: DeclaredObject, { key }: { key: string }): string =>
  `${section}/${object}/${encodeURIComponent(key)}`;

type Found = Pick<DeclaredField, 'key' | 'type'>;

const isDeclared = (one: Found): one is DeclaredField => 'label' in one;

/** Returns the fields of contacts or companies: their own, those without a type, and the built-in ones. */
function listOf(object: DeclaredObject, all: readonly Found[]): Html {
  const [own, found] = [all.filter(isDeclared), all.filter((one) => !isDeclared(one))];
  const names = builtInOf(object).flatMap(({ label, writable }) => (writable ? label : []));
  const give = ({ key, type }: Found) =>
    link('Set it up', pathWith(`${section}/${object}/new`, { found: key, label: key, type }));
  const untyped = html`<h3>Not set up yet</h3>
    !${quiet('Imports or programs have brought these. Set them up, and they are in forms, tables and rules, too.')}
    !${bullets(found.map((one) => html`<code>${one.key}</code> !${give(one)}`))}`;
  return panel(
    plain(object),
    html`!${table(`Your own fields of ${object}`, columnsOf(object), own, quiet('No fields of your own yet.'))}
    !${when(found.length > 0, untyped)} !${folded(`Built-in fields: ${names.length}`, quiet(names.join(', ')))}`,
    linkButton('New field', `${section}/${object}/new`, 'outline'),
  );
}

const columnsOf = (object: DeclaredObject): Column<DeclaredField>[] => [
  ['Your own field', ({ label }) => html`<strong>${label}</strong>`],
  ['Type', typeText],
  ['Key', ({ key }) => html`<code>${key}</code>`],
  ['', (one) => acts(pathOf(object, one), one.label, { edit: 'Change', remove: 'Remove the type' })],
];

function typeText({ type, choices }: DeclaredField): Html {
  const some = choices.length > 0 ? `: ${choices.slice(0, 5).join(', ')}${choices.length > 5 ? '…' : ''}` : '';
  return html`${typeWords[type]}${some}`;
}

async function requireDeclared(request: FastifyRequest, object: DeclaredObject): Promise<DeclaredField> {
  const { key } = request.params as { key: string };
  const found = (await lookUp(request, listDeclared, object)).find((one) => one.key === key);
  return required(found, 'declared field');
}

const findStored = async (request: FastifyRequest, object: DeclaredObject): Promise<DeclaredField | undefined> =>
  'key' in (request.params as object) ? requireDeclared(request, object) : undefined;

const keyPattern = new RegExp(KeyParams.properties.key.pattern!, 'u');

async function save(request: FastifyRequest, object: DeclaredObject): Promise<string> {
  const { db, caller } = request;
  const stored = await findStored(request, object);
  const found = foundIn(request, stored);
  const { key: given, label, type, choices } = draftOf(request, stored);
  const faults = [];
  if (label === '' && !found && !stored) faults.push({ path: '/label', message: 'give a name' });
  const key = given || /^.{0,64}/su.exec(words(label).join('_'))![0];
  if (stored) requireCurrent(request, stored);
  if (type === 'choice' && choices.length === 0)
    faults.push({ path: '/choices', message: 'write at least one choice' });
  if (found && !(keyPattern.test(key) && [...key].length <= 64))
    throw invalid('a field with this key can have no type');
  // The API takes more. These need no quotes in files and programs.
  if (!found && !stored && !/^(?!__proto__$)[\p{L}\p{N}_-]{1,64}$/u.test(key) && given + label !== '')
    faults.push({ path: '/key', message: 'use letters, digits and _ only, at most 64, such as start_date' });
  const body = { type, ...(label === '' ? {} : { label }), ...(choices.length > 0 && { choices }) };
  requireValid(Declaration, body, faults);
  await db.transaction(async (sql) => {
    const others = (await listDeclared(sql, caller.customerId, object)).filter((one) => one.key !== stored?.key);
    const known = [...builtInOf(object), ...others];
    const twin = (stored || found ? others : known).find((one) => one.key === key);
    if (twin && given !== '') throw invalid(`the field “${twin.label}” has this key`, '/key');
    // Forms and tables would show two fields of the same name.
    const isSame = (one: { label: string }) => label !== stored?.label && fold(one.label) === fold(label || key);
    const namesake = twin ?? known.find(isSame);
    if (namesake) throw invalid(`“${namesake.label}” is a field already: use that one, or give another name`, '/label');
    await declareField(sql, caller.customerId, { object, key }, body, actorOf(request));
  });
  return `${section}?done=saved`;
}

/** Returns the key of a field that records have and that gets its first type, or an empty text. */
const foundIn = (request: FastifyRequest, stored: DeclaredField | undefined): string =>
  stored ? '' : linesIn(givenIn(request), 'found');

function draftOf(request: FastifyRequest, stored: DeclaredField | undefined): DeclaredField {
  const given = givenIn(request);
  const { key, label, type, choices } = textsIn(given, 'key', 'label', 'type', 'choices');
  const lines = choices.split('\n').map((line) => line.trim());
  return {
    // The key of a found field can begin with white space.
    key: stored?.key ?? (foundIn(request, stored) || key),
    label,
    type: type as DeclaredField['type'],
    choices: type === 'choice' ? [...new Set(lines.filter((line) => line !== ''))] : [],
  };
}

async function showForm(request: FastifyRequest, object: DeclaredObject, refused: Refused): Promise<FormPage> {
  const { faults, status } = refused;
  const stored = await findStored(request, object);
  const draft = stored && request.method !== 'POST' ? stored : draftOf(request, stored);
  const textsOf = (one: DeclaredField) => ({ ...one, choices: one.choices.join('\n') });
  const theirs = stored && status === statuses.precondition_failed ? textsOf(stored) : {};
  const { input, choice, area } = controlsFor(textsOf(draft), faults, theirs, ['label']);
  const hint =
    'Its name in files and programs, which stays for good. Empty: made from the name, such as end_of_contract.';
  const found = foundIn(request, stored);
  const key = found ? hidden({ found }) : input('key', 'Key', { hint });
  const name = { hint: 'What people read, such as “End of contract”.', more: 'maxlength="120" autocomplete="off"' };
  return {
    title: stored ? `Change ${stored.label}` : found ? `Set up ${found}` : `New field of ${object}`,
    lead: when(stored || found, html`Key: <code>${stored?.key ?? found}</code>`),
    body: html`!${input('label', 'Name', name)} !${stored ? versionField(stored) : ''}
      !${choice('type', 'Type', typeWords)}
      <div class="of-choices">!${area('choices', 'Choices', 'One on each line.', '')}</div>
      !${stored ? '' : key}
      !${when(stored || found, quiet('Values that are stored already stay, also if they are of another type.'))}
      !${buttons('Save the field', section)}`,
    isNarrow: true,
  };
}
