import type { FastifyInstance, FastifyRequest } from 'fastify';
import { actorOf } from '../plugins/auth.ts';
import { statuses } from '../plugins/error-handler.ts';
import { declareField, removeDeclaration } from '../queries/accounts/customers.ts';
import { listCustomFields, listDeclared } from '../queries/records/custom-fields.ts';
import { words } from '../text/fold.ts';
import { Declaration, KeyParams, type DeclaredField, type DeclaredObject } from '../schemas/wire.ts';
import { forAdmins, addPage, formRoutes, question, type FormPage } from './base/layout.ts';
import { versionField, controlsFor, hidden } from './base/forms.ts';
import { lookUp, search, write, givenIn, linesIn, textsIn, required, requireCurrent } from './base/requests.ts';
import { requireValid, invalid, type Refused } from './base/requests.ts';
import { when, acts, empty, table, linkButton, buttons, html, link, panel, pathWith, quiet } from './base/html.ts';
import type { Html, Column } from './base/html.ts';
import { plain, typeWords } from './base/words.ts';

const section = '/app/fields';

export async function fields(app: FastifyInstance): Promise<void> {
  addPage(app, '/fields', forAdmins, async (request) => {
    const lists = objects.map(async (object) => listOf(object, await search(request, listCustomFields, object)));
    return {
      title: 'Fields',
      lead: 'Your own fields. One with a type has the right control in forms, which refuse any other value.',
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
      text: ({ label }) => html`<strong>${label}</strong> can then have any value again. The values that it has stay.`,
      act: async (request, { key }) => {
        await write(request, removeDeclaration, { object, key }, actorOf(request));
        return `${section}?done=removed`;
      },
    });
  }
}

const objects: readonly DeclaredObject[] = ['contacts', 'companies'];

const pathOf = (object: DeclaredObject, { key }: { key: string }): string =>
  `${section}/${object}/${encodeURIComponent(key)}`;

type Listed = Pick<DeclaredField, 'key' | 'type'> & Partial<DeclaredField>;

function listOf(object: DeclaredObject, all: readonly Listed[]): Html {
  const add = linkButton('New field', `${section}/${object}/new`, 'outline');
  const none = empty('No fields of your own yet', 'They hold what no other field is for.', 'search', add);
  return panel(plain(object), table(`Fields of ${object}`, columnsOf(object), all, none), when(all.length > 0, add));
}

const columnsOf = (object: DeclaredObject): Column<Listed>[] => [
  ['Field', ({ key, label }) => html`${label ?? key}`],
  ['Key', ({ key }) => html`<code>${key}</code>`],
  ['Type', typeText],
  [
    '',
    (one) =>
      one.label === undefined
        ? link(
            'Give it a type',
            pathWith(`${section}/${object}/new`, { found: one.key, label: one.key, type: one.type }),
          )
        : acts(pathOf(object, one), one.label, { edit: 'Change', remove: 'Remove' }),
  ],
];

function typeText({ label, type, choices = [] }: Listed): Html {
  if (label === undefined) return html`<span class="quiet">not set, so not in rules and tables</span>`;
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
  const { key: given, label, type, choices } = draftOf(request, stored);
  if (given + label === '') throw invalid('give a name', '/label');
  const key = given || /^.{0,64}/su.exec(words(label).join('_'))![0];
  if (stored) requireCurrent(request, stored);
  if (type === 'choice' && choices.length === 0) throw invalid('write at least one choice', '/choices');
  const isKey = keyPattern.test(key) && [...key].length <= 64;
  if (!isKey) throw invalid('give a key such as start_date: at most 64 characters, and not . or ..', '/key');
  const body = { type, ...(label === '' ? {} : { label }), ...(choices.length > 0 && { choices }) };
  requireValid(Declaration, body);
  await db.transaction(async (sql) => {
    const isTaken = !stored && (await listDeclared(sql, caller.customerId, object)).some((one) => one.key === key);
    if (isTaken) throw invalid('another field has this key', given === '' ? '/label' : '/key');
    await declareField(sql, caller.customerId, { object, key }, body, actorOf(request));
  });
  return `${section}?done=saved`;
}

function draftOf(request: FastifyRequest, stored: DeclaredField | undefined): DeclaredField {
  const given = givenIn(request);
  const { key, label, type, choices } = textsIn(given, 'key', 'label', 'type', 'choices');
  const lines = choices.split('\n').map((line) => line.trim());
  return {
    // The key of a found field can begin with white space.
    key: stored?.key ?? (linesIn(given, 'found') || key),
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
  const hint = 'Its name in files and programs, which stays for good. Empty: made from the name, such as start_date.';
  const found = linesIn(givenIn(request), 'found');
  const key = found ? hidden({ found }) : input('key', 'Key', { hint });
  return {
    title: stored ? `Change ${stored.label}` : found ? `Give ${found} a type` : `New field of ${object}`,
    lead: when(found, html`Key: <code>${found}</code>`),
    body: html`!${input('label', 'Name', { hint: 'What people read.', more: 'maxlength="120" autocomplete="off"' })}
      !${stored ? versionField(stored) : key} !${choice('type', 'Type', typeWords)}
      <div class="of-choices">!${area('choices', 'Choices', 'One on each line.', '')}</div>
      !${when(stored, quiet('Values that are stored already stay, also if they are of another type.'))}
      !${buttons('Save the field', section)}`,
    isNarrow: true,
  };
}
