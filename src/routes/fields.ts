import { Type, type FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { findCustomFields } from '../queries/records/custom-fields.ts';
import { builtInFields, customField, Field, objects, type ObjectName } from '../schemas/fields.ts';

const fields: FastifyPluginAsyncTypebox = async (app) => {
  for (const [object, { scope }] of Object.entries(objects) as [ObjectName, (typeof objects)[ObjectName]][]) {
    const builtIn = builtInFields(object);
    app.get(
      `/fields/${object}`,
      {
        config: { access: { scope } },
        schema: {
          operationId: `list${object[0]!.toUpperCase()}${object.slice(1)}Fields`,
          summary: `List the fields of ${object}`,
          description:
            'Returns what each field is, for programs that map or show fields: built-in ones in their order, then ' +
            'custom ones, as `custom_fields.<key>`, that the newest 50,000 records have (at most 500).',
          tags: ['fields'],
          response: { 200: Type.Array(Field) },
        },
      },
      async ({ db, caller }) => {
        if (object !== 'contacts' && object !== 'company') return builtIn;
        const table = object === 'contacts' ? 'contacts' : 'companies';
        const found = await db.search((sql) => findCustomFields(sql, caller.customerId, table));
        return [...builtIn, ...found.map(({ key, type }) => customField(key, type))];
      },
    );
  }
};

export default fields;
