import type { Database } from '../../src/database/db.ts';
import { toIdentifier, type IdentifierKind } from '../../src/queries/jobs/catalog-imports.ts';
import { insertSuppressions, openDigests, toBytes } from '../../src/queries/jobs/privacy.ts';

/** Adds suppressions, and changes nothing else. */
export const suppress = (db: Database, given: [kind: IdentifierKind, text: string][], is_erasure = false) =>
  db.transaction(async (sql) => {
    const digests = await openDigests(sql);
    const rows = given.map(([kind, text]) => ({
      kind,
      digest: toBytes(digests.of(toIdentifier(kind, text)!.value)),
      is_erasure,
      reason: 'test',
      case_ref: null,
    }));
    return insertSuppressions(sql, rows);
  });
