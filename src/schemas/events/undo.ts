import { Type, type Static } from '@sinclair/typebox';
import { Flag, Instant, Nullable, Strict } from '../base/wire.ts';
import { Actor } from './feed.ts';

export const UndoRequest = Strict(
  { dry_run: Flag('Only count what would be restored; change nothing.') },
  { title: 'UndoRequest', examples: [{ dry_run: true }] },
);

export const UndoEstimate = Type.Object(
  {
    records: Type.Integer({ description: 'Records that the change has written.' }),
    restored: Type.Integer({ description: 'Records of which something would be restored.' }),
    kept: Type.Integer({ description: 'Records of which something would be kept, because it was written since.' }),
    conflicts: Type.Integer({ description: 'Deleted records whose `external_id` another record has by now.' }),
  },
  { title: 'UndoEstimate' },
);
export type UndoEstimate = Static<typeof UndoEstimate>;

export const UndoResult = Type.Object(
  {
    restored: Type.Array(Type.String(), { description: 'The fields of an updated record that were restored.' }),
    kept: Type.Array(
      Type.Object({
        field: Type.String({ description: 'Name of the field.' }),
        actor: Nullable(Actor()),
        occurred_at: Nullable(Instant('When it was written since. Null: it is not known.')),
      }),
      { description: 'The fields that were not, and who has written them since.' },
    ),
  },
  { title: 'Undone' },
);
export type UndoResult = Static<typeof UndoResult>;
