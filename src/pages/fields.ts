import type { FastifyInstance, FastifyRequest } from 'fastify';
import { notFound, validationFailed } from '../errors.ts';
import { statuses } from '../plugins/error-handler.ts';
import { actorOf } from '../plugins/auth.ts';
import { declareField, removeDeclaration } from '../queries/accounts/customers.ts';
import { listCustomFields, listDeclared } from '../queries/records/custom-fields.ts';
import { Declaration, declaredTypes, KeyParams, type DeclaredField, type DeclaredObject } from '../schemas/wire.ts';
import { compile } from '../validation/validator.ts';
import { forAdmins, addPage, formRoutes, question, type FormPage } from './base/layout.ts';
import { versionField, doneNotice, controlsFor } from './base/forms.ts';
import { lookUp, search, write, fieldsOf, text, linesIn, queryText } from './base/requests.ts';
import { requireCurrent, requireValid, type Refused } from './base/refusals.ts';
import { when, empty, table, linkButton, buttons, html, type Html, type Column } from './base/html.ts';
import { typeWords } from './base/words.ts';

const section = '/app/fields';

const titles: Record<DeclaredObject, string> = { contacts: 'Contacts', companies: 'Companies' };

const checkKey = compile(KeyParams);
const check = compile(Declaration);

export async function fields(app: FastifyInstance): Promise<void> {
  addPage(app, '/fields', forAdmins, async (request) => {
    const lists = objects.map(async (object) => listOf(object, await search(request, listCustomFields, object)));
    return {
      title: 'Fields',
      lead: html`Your own fields of contacts and companies. For a field with a type, forms show the right control, and
      another value is refused.`,
      body: html`!${doneNotice(request, notices)} !${await Promise.all(lists)}`,
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
      back: () => section,
      act: async (request) => {
        const { key } = await requireDeclared(request, object);
        await write(request, removeDeclaration, { object, key }, actorOf(request));
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
  const none = empty(
    'No fields of your own yet',
    'A field of your own holds what no other field is for.',
    'search',
    add,
  );
  return html`<section>
    <div class="row apart">
      <h2>${titles[object]}</h2>
      !${when(all.length > 0, add)}
    </div>
    !${table(`Fields of ${object}`, columnsOf(object), all, none)}
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

async function requireDeclared(request: FastifyRequest, object: DeclaredObject): Promise<DeclaredField> {
  const { key } = request.params as { key: string };
  const found = (await lookUp(request, listDeclared, object)).find((one) => one.key === key);
  if (!found) throw notFound('declared field');
  return found;
}

const findStored = async (request: FastifyRequest, object: DeclaredObject): Promise<DeclaredField | undefined> =>
  'key' in (request.params as object) ? requireDeclared(request, object) : undefined;

async function save(request: FastifyRequest, object: DeclaredObject): Promise<string> {
  const { db, caller } = request;
  const stored = await findStored(request, object);
  const { key, label, type, choices } = draftOf(request, stored);
  if (stored) requireCurrent(request, stored);
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

/** Reads the form of a field. Keeps choices only for the type `choice`. */
function draftOf(request: FastifyRequest, stored: DeclaredField | undefined): DeclaredField {
  const fields = fieldsOf(request);
  const type = text(fields, 'type') as DeclaredField['type'];
  const lines = linesIn(fields, 'choices').split('\n');
  const choices = lines.map((line) => line.trim()).filter((line) => line !== '');
  return {
    key: stored?.key ?? text(fields, 'key').trim(),
    label: text(fields, 'label').trim(),
    type,
    choices: type === 'choice' ? [...new Set(choices)] : [],
  };
}

function newDraft(request: FastifyRequest): DeclaredField {
  const [key, given] = ['key', 'type'].map((name) => queryText(request, name)) as [string, string];
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
  const { input, choice, area } = controlsFor({ ...draft, choices: draft.choices.join('\n') }, faults);
  const isConflict = stored && status === statuses.precondition_failed;
  const types = declaredTypes.map((type) => [type, typeWords[type]] as const);
  const key = input('key', 'Key', {
    hint: 'Its name in files and programs. It stays for good.',
    more: 'maxlength="64" autocomplete="off" required',
  });
  return {
    title: stored ? `Change ${stored.label}` : `New field of ${object}`,
    body: html`!${isConflict ? html`<p>Stored now: ${stored.label}, !${typeText(stored)}</p>` : ''}
      !${stored ? versionField(stored) : key}
      !${input('label', 'Name', {
        hint: 'What people read. Empty: the key.',
        more: 'maxlength="120" autocomplete="off"',
      })}
      !${choice('type', 'Type', types)} !${area('choices', 'Choices', 'Only for a choice: one on each line.', '')}
      <p class="quiet">Values that are stored already stay, also if they are of another type.</p>
      !${buttons('Save the field', section)}`,
    isNarrow: true,
  };
}
