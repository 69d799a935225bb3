import type { FastifyInstance, FastifyRequest } from 'fastify';
import { notFound, validationFailed } from '../errors.ts';
import { statuses } from '../plugins/error-handler.ts';
import { actorOf } from '../plugins/auth.ts';
import { declareField, removeDeclaration } from '../queries/accounts/customers.ts';
import { listCustomFields, listDeclared } from '../queries/records/custom-fields.ts';
import { Declaration, declaredTypes, KeyParams, type DeclaredField, type DeclaredObject } from '../schemas/wire.ts';
import { compile } from '../validation/validator.ts';
import { forAdmins, formRoutes, questionRoutes, sendPage, type FormPage } from './base/layout.ts';
import {
  conflictOf,
  doneNotice,
  field,
  fieldsOf,
  inputField,
  isOutdated,
  linesIn,
  queryOf,
  requireValid,
  selectField,
  text,
  textArea,
  versionField,
  type Refused,
} from './base/forms.ts';
import { buttons, empty, html, linkButton, table, type Column, type Html } from './base/html.ts';
import { typeWords } from './base/words.ts';

const section = '/app/fields';

const titles: Record<DeclaredObject, string> = { contacts: 'Contacts', companies: 'Companies' };

const checkKey = compile(KeyParams);
const check = compile(Declaration);

export async function fields(app: FastifyInstance): Promise<void> {
  app.get('/fields', forAdmins, async (request, reply) => {
    const { db, caller } = request;
    const lists = await Promise.all(
      objects.map(async (object) =>
        listOf(object, await db.search((sql) => listCustomFields(sql, caller.customerId, object))),
      ),
    );
    return sendPage(request, reply, {
      title: 'Fields',
      lead: html`Your own fields of contacts and companies. For a field with a type, forms show the right control, and
      another value is refused.`,
      body: html`!${doneNotice(request, notices)} !${lists}`,
    });
  });

  for (const object of objects) {
    const path = `/fields/${object}`;

    for (const form of [`${path}/new`, `${path}/:key/edit`])
      formRoutes(app, form, forAdmins, {
        show: (request, refused) => showForm(request, object, refused),
        act: (request) => save(request, object),
      });

    questionRoutes(app, `${path}/:key/remove`, forAdmins, {
      ask: async (request) => {
        const { label } = await requireDeclared(request, object);
        return {
          title: 'Remove the type',
          text: html`<strong>${label}</strong> can then have any value again. The values that it has stay.`,
          back: section,
        };
      },
      act: async (request) => {
        const { db, caller } = request;
        const { key } = await requireDeclared(request, object);
        await db.transaction((sql) => removeDeclaration(sql, caller.customerId, { object, key }, actorOf(request)));
        return `${section}?done=removed`;
      },
    });
  }
}

const objects: readonly DeclaredObject[] = ['contacts', 'companies'];

const notices: Record<string, string> = {
  saved: 'The field is saved. Values are checked when they are written from now on.',
  removed: 'The type is removed. The values stay.',
};

const pathOf = (object: DeclaredObject, { key }: { key: string }): string =>
  `${section}/${object}/${encodeURIComponent(key)}`;

type Listed = Pick<DeclaredField, 'key' | 'type'> & Partial<DeclaredField>;

function listOf(object: DeclaredObject, all: readonly Listed[]): Html {
  const add = linkButton('New field', `${section}/${object}/new`, 'outline');
  return html`<section>
    <div class="heading">
      <h2>${titles[object]}</h2>
      !${all.length === 0 ? '' : add}
    </div>
    !${table(`Fields of ${object}`, columnsOf(object), all, empty('No fields of your own yet', 'A field of your own holds what no other field is for.', add))}
  </section>`;
}

const columnsOf = (object: DeclaredObject): Column<Listed>[] => [
  ['Field', ({ key, label }) => html`${label ?? key}`],
  ['Key', ({ key }) => html`<code>${key}</code>`],
  ['Type', typeText],
  [
    '',
    (one) =>
      one.label === undefined
        ? html`<a href="${section}/${object}/new?key=${encodeURIComponent(one.key)}&type=${one.type}"
            >Give it a type</a
          >`
        : html`<a href="${pathOf(object, one)}/edit">Change</a> ·
            <a href="${pathOf(object, one)}/remove" data-dialog>Remove</a>`,
  ],
];

function typeText({ label, type, choices = [] }: Listed): Html {
  if (label === undefined) return html`<span class="quiet">not set</span>`;
  const some = choices.length > 0 ? `: ${choices.slice(0, 5).join(', ')}${choices.length > 5 ? '…' : ''}` : '';
  return html`${typeWords[type]}${some}`;
}

async function requireDeclared({ db, caller, params }: FastifyRequest, object: DeclaredObject): Promise<DeclaredField> {
  const { key } = params as { key: string };
  const all = await db.lookup((sql) => listDeclared(sql, caller.customerId, object));
  const found = all.find((one) => one.key === key);
  if (!found) throw notFound('declared field');
  return found;
}

const findStored = async (request: FastifyRequest, object: DeclaredObject): Promise<DeclaredField | undefined> =>
  'key' in (request.params as object) ? requireDeclared(request, object) : undefined;

async function save(request: FastifyRequest, object: DeclaredObject): Promise<string | Refused> {
  const { db, caller } = request;
  const stored = await findStored(request, object);
  const { key, label, type, choices } = draftOf(request, stored);
  if (stored && isOutdated(request, stored)) return conflictOf('field');
  requireValid(checkKey, { key });
  const body = { type, ...(label === '' ? {} : { label }), ...(choices.length > 0 && { choices }) };
  requireValid(check, body);
  await db.transaction(async (sql) => {
    const isTaken = !stored && (await listDeclared(sql, caller.customerId, object)).some((one) => one.key === key);
    if (isTaken) throw validationFailed([{ path: '/key', message: 'another field has this key' }]);
    await declareField(sql, caller.customerId, { object, key }, body, actorOf(request));
  });
  return `${section}?done=saved`;
}

/**
 * Reads the form of a field. Choices apply only to their type, so a user can change the type and back before saving.
 */
function draftOf(request: FastifyRequest, stored: DeclaredField | undefined): DeclaredField {
  const fields = fieldsOf(request);
  const type = text(fields, 'type') as DeclaredField['type'];
  const lines = linesIn(fields, 'choices')
    .split('\n')
    .map((line) => line.trim());
  return {
    key: stored?.key ?? text(fields, 'key').trim(),
    label: text(fields, 'label').trim(),
    type,
    choices: type === 'choice' ? [...new Set(lines.filter((line) => line !== ''))] : [],
  };
}

/**
 * Returns the first values of the form of a new field. For an undeclared field that records have, these are its key and
 * type.
 */
function newDraft(request: FastifyRequest): DeclaredField {
  const [key, given] = ['key', 'type'].map((name) => text(queryOf(request), name)) as [string, string];
  const type = declaredTypes.find((one) => one === given) ?? 'text';
  return { key, label: key, type, choices: [] };
}

async function showForm(
  request: FastifyRequest,
  object: DeclaredObject,
  { faults, status }: Refused,
): Promise<FormPage> {
  const stored = await findStored(request, object);
  const draft = request.method === 'POST' ? draftOf(request, stored) : (stored ?? newDraft(request));
  const isConflict = status === statuses.precondition_failed;
  const key = { name: 'key', label: 'Key', hint: 'Its name in files and programs. It stays for good.', faults };
  const label = { name: 'label', label: 'Name', hint: 'What people read. Empty: the key.', faults };
  const types = declaredTypes.map((type) => [type, typeWords[type]] as const);
  const choices = { name: 'choices', label: 'Choices', hint: 'Only for a choice: one on each line.', faults };
  return {
    title: stored ? `Change ${stored.label}` : `New field of ${object}`,
    body: html`!${isConflict && stored ? html`<p>Stored now: ${stored.label}, !${typeText(stored)}</p>` : ''}
      !${stored ? versionField(stored) : inputField(key, draft.key, 'text', 'maxlength="64" autocomplete="off" required')}
      !${inputField(label, draft.label, 'text', 'maxlength="120" autocomplete="off"')}
      !${selectField({ name: 'type', label: 'Type', faults }, types, draft.type)}
      !${field(choices, (attributes) => textArea(attributes, draft.choices.join('\n')))}
      <p class="quiet">Values that are stored already stay, also if they are of another type.</p>
      !${buttons('Save the field', section)}`,
    isNarrow: true,
  };
}
