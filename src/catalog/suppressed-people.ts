import type { Database } from '../database/db.ts';
import { formsOf, identifierKinds, identifiersOf } from '../queries/jobs/catalog-imports.ts';
import type { Identified, IdentifierKind } from '../queries/jobs/catalog-imports.ts';
import { openDigests, readSuppressions } from '../queries/jobs/privacy.ts';
import type { KeyedDigests } from '../text/ids.ts';

/** A copy of all suppressions in memory, for work that checks many people. It does not see later changes. */
export class SuppressedPeople {
  readonly #digests: KeyedDigests;
  readonly #byKind: Record<IdentifierKind, Map<string, boolean>>;
  readonly #size: number;

  private constructor(digests: KeyedDigests, byKind: Record<IdentifierKind, Map<string, boolean>>) {
    this.#digests = digests;
    this.#byKind = byKind;
    this.#size = identifierKinds.reduce((sum, kind) => sum + byKind[kind].size, 0);
  }

  static async open(db: Database): Promise<SuppressedPeople> {
    const byKind = { email: new Map(), profnet_url: new Map(), id: new Map() } as Record<
      IdentifierKind,
      Map<string, boolean>
    >;
    const digests = await db.lookup(openDigests);
    await db.search(async (sql) => {
      for await (const { kind, digest, is_erasure } of readSuppressions(sql))
        byKind[kind].set(digest.toString('latin1'), is_erasure);
    });
    return new SuppressedPeople(digests, byKind);
  }

  has(person: Identified): boolean {
    return this.#size > 0 && this.#found(person).some((isErasure) => isErasure !== undefined);
  }

  /** Returns true if the person's data must be deleted. Other suppressed people are only kept out of the catalog. */
  isErased(person: Identified): boolean {
    return this.#size > 0 && this.#found(person).includes(true);
  }

  /**
   * Looks up all forms of the person's identifiers. Each result is true for an erasure, false for another suppression,
   * and undefined without one.
   */
  #found(person: Identified): (boolean | undefined)[] {
    return identifiersOf(person).flatMap((own) => {
      const digests = this.#byKind[own.kind];
      return digests.size > 0 ? formsOf(own).map((form) => digests.get(this.#digests.of(form))) : [];
    });
  }
}
