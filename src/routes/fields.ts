import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { actorOf } from '../plugins/auth.ts';
import { declareField, removeDeclaration } from '../queries/accounts/customers.ts';
import { listCustomFields } from '../queries/records/custom-fields.ts';
import {
  Declaration,
  KeyParams,
  maxDeclared,
  type DeclaredObject,
  Done,
  doneWith,
  ErrorBody,
} from '../schemas/wire.ts';
import { type Access, routesOf } from '../schemas/scopes.ts';
import { builtInFields, customField, declarable, Field, FieldDone, objects } from '../schemas/fields.ts';
import type { ObjectName } from '../schemas/fields.ts';

const about = routesOf('fields');

const titleOf = (object: string): string => `${object[0]!.toUpperCase()}${object.slice(1)}`;

const fields: FastifyPluginAsyncTypebox<{ by: 'session' | 'key' }> = async (app, { by }) => {
  if (by === 'key') addLists(app);
  const access: Access = by === 'key' ? { scope: 'fields:manage' } : { session: 'admin' };
  for (const [path, object] of Object.entries(declarable)) {
    const idOf = (verb: string): string => `${verb}${titleOf(path)}Field${by === 'key' ? '' : 'InSession'}`;
    addDeclarations(app, { path: `/fields/${path}/:key`, object, access, idOf });
  }
};

export default fields;

type App = Parameters<FastifyPluginAsyncTypebox>[0];

function addLists(app: App): void {
  for (const [object, { scope }] of Object.entries(objects) as [ObjectName, (typeof objects)[ObjectName]][]) {
    const builtIn = builtInFields(object);
    const declared = object === 'contacts' || object === 'company' ? declarable[object] : undefined;
    app.get(
      `/fields/${object}`,
      about(
        `list${titleOf(object)}Fields`,
        `List the fields of ${object}`,
        'Returns what each field is, for programs that map or show fields: built-in ones in their order, then ' +
          'custom ones, as `custom_fields.<key>`: those that are declared, and others that the newest 50,000 records ' +
          'have (at most 500).',
        { response: { 200: Type.Array(Field) } },
        { access: { scope } },
      ),
      async ({ db, caller }) => {
        if (!declared) return builtIn;
        const custom = await db.search((sql) => listCustomFields(sql, caller.customerId, declared));
        return [...builtIn, ...custom.map(customField)];
      },
    );
  }
}

function addDeclarations(
  app: App,
  {
    path,
    object,
    access,
    idOf,
  }: { path: string; object: DeclaredObject; access: Access; idOf: (verb: string) => string },
): void {
  app.put(
    path,
    about(
      idOf('declare'),
      `Declare a custom field of ${object}`,
      'Says what the values of a custom field are. From now on, another value is 400 when it is written; `null` is ' +
        'always allowed, and stored values stay. Replaces an earlier declaration of the field. At most ' +
        `${maxDeclared} fields of ${object} can be declared; one more is 409.`,
      { params: KeyParams, body: Declaration, response: { 200: FieldDone, 409: ErrorBody } },
      { access },
    ),
    async (request) => {
      const { db, caller, params, body } = request;
      const name = { object, key: params.key };
      const field = await db.transaction((sql) => declareField(sql, caller.customerId, name, body, actorOf(request)));
      return doneWith('Field declared', customField(field));
    },
  );

  app.delete(
    path,
    about(
      idOf('undeclare'),
      `Remove the declaration of a custom field of ${object}`,
      'From now on, the field takes any value again. Its values stay. Without a declaration it is 404.',
      { params: KeyParams, response: { 200: Done } },
      { access },
    ),
    async (request) => {
      const { db, caller, params } = request;
      const name = { object, key: params.key };
      await db.transaction((sql) => removeDeclaration(sql, caller.customerId, name, actorOf(request)));
      return { success: true as const, message: 'Declaration removed' };
    },
  );
}
