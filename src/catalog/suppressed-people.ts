import type { Database } from '../database/db.ts';
import { formsOf, identifierKinds, identifiersOf } from '../queries/jobs/catalog-imports.ts';
import type { Identified, IdentifierKind } from '../queries/jobs/catalog-imports.ts';
import { openDigests, readSuppressions } from '../queries/jobs/privacy.ts';
import type { KeyedDigests } from '../text/ids.ts';

/** All suppressions in memory, as they were when it was opened. For work that checks many people. */
export class SuppressedPeople {
  readonly #digests: KeyedDigests;
  /** Whether a digest is of an erasure, by digest. */
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

  /** Whether the person is suppressed. Must be fast: an import calls it for every person. */
  has(person: Identified): boolean {
    return this.#size > 0 && this.#found(person).some((isErasure) => isErasure !== undefined);
  }

  /** Whether the person must be deleted, not only kept out. */
  isErased(person: Identified): boolean {
    return this.#size > 0 && this.#found(person).includes(true);
  }

  /** Returns one value for each form of each identifier; undefined if it is not suppressed. */
  #found(person: Identified): (boolean | undefined)[] {
    return identifiersOf(person).flatMap((own) => {
      const digests = this.#byKind[own.kind];
      return digests.size > 0 ? formsOf(own).map((form) => digests.get(this.#digests.of(form))) : [];
    });
  }
}
