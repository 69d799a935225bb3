import type { Database } from '../database/db.ts';
import { formsOf, identifierKinds, identifiersOf } from '../queries/jobs/catalog-imports.ts';
import type { Identified, IdentifierKind } from '../queries/jobs/catalog-imports.ts';
import { openDigests, readSuppressions } from '../queries/jobs/privacy.ts';

/** A copy of all suppressions in memory, for work that checks many people. It does not see later changes. */
export type SuppressedPeople = Awaited<ReturnType<typeof readSuppressedPeople>>;

export async function readSuppressedPeople(db: Database) {
  const byKind: Record<IdentifierKind, Map<string, boolean>> = {
    email: new Map(),
    profnet_url: new Map(),
    id: new Map(),
  };
  const digests = await db.lookup(openDigests);
  await db.search(async (sql) => {
    for await (const { kind, digest, is_erasure } of readSuppressions(sql))
      byKind[kind].set(digest.toString('latin1'), is_erasure);
  });
  const isEmpty = identifierKinds.every((kind) => byKind[kind].size === 0);
  /**
   * Looks up all forms of the person's identifiers. Each result is true for an erasure, false for another suppression,
   * and undefined without one.
   */
  const find = (person: Identified): (boolean | undefined)[] =>
    (isEmpty ? [] : identifiersOf(person)).flatMap((own) => {
      const known = byKind[own.kind];
      return known.size > 0 ? formsOf(own).map((form) => known.get(digests.of(form))) : [];
    });
  return {
    has: (person: Identified): boolean => find(person).some((isErasure) => isErasure !== undefined),
    isErased: (person: Identified): boolean => find(person).includes(true),
  };
}
