import type { TObject } from '@sinclair/typebox';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Fault } from '../../errors.ts';
import { listUsers } from '../../queries/accounts/users.ts';
import { listDeclared } from '../../queries/records/custom-fields.ts';
import { etagOf } from '../../text/etag.ts';
import { fieldsOf, queryOf, text } from '../base/forms.ts';
import { html, type Html } from '../base/html.ts';
import { fieldWord } from '../base/words.ts';
import { editor, requireRecord, type EditForm } from './editor.ts';
import { changesOf, recordForm, textsOf, textsOfRecord } from './record-form.ts';
import type { RecordKind, ShownRecord } from './record-kind.ts';

/** Forms that create, change and delete one record. */
export const recordEdit = <Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void =>
  editor(app, {
    ...kind,
    require: (request) => requireRecord(request, kind.noun, kind.find),
    tagOf: etagOf,
    bodyOf: async (request, stored) => {
      const schema = (stored ? kind.schemas.patch : kind.schemas.create) as TObject;
      const declared = await declaredFor(request, kind);
      const changes = await changesOf(kind.fields, fieldsOf(request), stored, { schema, declared });
      if (stored) return { body: changes };
      const body = { ...kind.blank, ...changes };
      return { body, faults: missingIn(kind, body) };
    },
    controls: (request, form) => controlsOf(request, kind, form),
    fields: [...kind.fields.map(({ name }) => name), 'custom_fields'],
    verb: 'Create',
    create: (sql, { customerId }, body) => kind.create(sql, customerId, body),
    question: async ({ db, caller }, found) =>
      html`<strong>${kind.nameOf(found)}</strong> is deleted. For 90 days this can be undone.
        ${await kind.detaches(db, caller.customerId, found)}`,
    isTold: true,
    afterDeletion: () => `${kind.path}?done=deleted&n=1`,
  });

/** Returns a fault for each group of fields of which a new record needs one. */
const missingIn = <Row extends ShownRecord>({ needs, object }: RecordKind<Row>, body: object): Fault[] =>
  needs
    .filter((group) => !group.some((name) => name in body))
    .map((group) => ({
      path: `/${group[0]}`,
      message: `give one of these: ${group.map((name) => fieldWord(object, name).toLowerCase()).join(', ')}`,
    }));

/** After a conflict, the form has the values of the user; where the stored value differs, it is below the field. */
async function controlsOf<Row extends ShownRecord>(
  request: FastifyRequest,
  kind: RecordKind<Row>,
  { stored, sent, refused, isConflict }: EditForm<Row>,
): Promise<Html> {
  // A link of the record's page opens one group of its fields.
  const { fields } = kind;
  const inGroup = fields.filter(({ group }) => group === text(queryOf(request), 'group'));
  const shown = inGroup.length > 0 ? inGroup : fields;
  const saved = stored ? await textsOfRecord(shown, stored) : {};
  const texts = sent ? textsOf(shown, sent) : saved;
  const differing = isConflict ? Object.entries(saved).filter(([name, value]) => value !== texts[name]) : [];
  const state = {
    texts,
    declared: await declaredFor(request, kind),
    custom: stored?.custom_fields ?? {},
    given: sent ?? {},
    faults: refused.faults,
    users: await usersOf(request),
    theirs: Object.fromEntries(differing),
  };
  return html`!${
    isConflict
      ? html`<p class="quiet">Where what is stored now differs from your form, it stands below the field.</p>`
      : ''
  }
  !${recordForm(shown, state, shown === fields)}`;
}

/** Returns what is declared of the custom fields of a kind of records. */
export const declaredFor = ({ db, caller }: FastifyRequest, { object }: Pick<RecordKind, 'object'>) =>
  db.lookup((sql) => listDeclared(sql, caller.customerId, object));

export const usersOf = ({ db, caller }: FastifyRequest) => db.lookup((sql) => listUsers(sql, caller.customerId));
