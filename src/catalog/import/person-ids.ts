import { createHash, createHmac } from 'node:crypto';
import type { Database } from '../../database/db.ts';
import { findPersonIdSecret } from '../../queries/catalog/catalog-imports.ts';
import { spellingsOf, type Identifier } from '../../queries/catalog/identifiers.ts';
import { findUnlockingCustomers } from '../../queries/catalog/unlocks.ts';
import type { Catalog } from '../catalog.ts';
import type { CatalogDocument } from '../document.ts';

export interface PersonId {
  id: string;
  /** The id that earlier releases computed, if it differs. */
  former?: string;
}

/** Computes the ids of people who have none. The same person always gets the same. */
export class PersonIds {
  readonly #secret: Buffer;

  constructor(secret: Buffer) {
    this.#secret = secret;
  }

  static async open(db: Database): Promise<PersonIds> {
    return new PersonIds(await db.lookup(findPersonIdSecret));
  }

  /** The UUIDv5 (RFC 9562 §5.5) of the URL in lower case. */
  ofUrl(url: string): PersonId {
    return { id: uuidOfUrl(url.toLowerCase()) };
  }

  /**
   * A UUIDv8 (RFC 9562 §5.8) of the HMAC-SHA-256 of the address in lower case under the installation's secret.
   * Customers see the ids of people whose address they have not paid for: with a plain hash, they could test guessed
   * addresses.
   */
  ofEmail(email: string): PersonId {
    const address = email.toLowerCase();
    const digest = createHmac('sha256', this.#secret).update(address).digest();
    return { id: toUuid(digest, 8), former: uuidOfUrl(`mailto:${address}`) };
  }

  /** Returns the ids that a person may have because of an identifier. Of a profile: by the usual spellings of its URL. */
  allOf(identifier: Identifier): string[] {
    const { kind, value } = identifier;
    if (kind === 'id') return [value];
    if (kind === 'email')
      return spellingsOf(identifier).flatMap((address) => Object.values(this.ofEmail(address)) as string[]);
    const written = ['', 'http://', 'https://'].flatMap((scheme) =>
      spellingsOf(identifier).flatMap((url) => [`${scheme}${url}`, `${scheme}www.${url}`]),
    );
    return written.flatMap((url) => [this.ofUrl(url).id, this.ofUrl(`${url}/`).id]);
  }
}

/** The namespace of URLs (RFC 9562 §6.6). */
const urlNamespace = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex');

/** RFC 9562 §5.5. */
export const uuidOfUrl = (url: string): string =>
  toUuid(createHash('sha1').update(urlNamespace).update(url).digest(), 5);

function toUuid(digest: Buffer, version: number): string {
  const bytes = digest.subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | (version << 4);
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** With the id that earlier releases computed, if it differs. */
export interface ImportedPerson {
  document: CatalogDocument;
  formerId: string | undefined;
}

/** Returns former ids that people keep: the catalog has a person, or a customer an unlock, under them. */
export async function findKeptIds(
  db: Database,
  catalog: Pick<Catalog, 'findStored'>,
  people: readonly ImportedPerson[],
): Promise<ReadonlySet<string>> {
  const former = [...new Set(people.flatMap(({ formerId }) => formerId ?? []))];
  if (former.length === 0) return new Set();
  const [stored, unlocked] = await Promise.all([
    catalog.findStored(former),
    db.search((sql) => findUnlockingCustomers(sql, former)),
  ]);
  return new Set([...stored, ...unlocked.keys()]);
}

export const withKeptId = ({ document, formerId }: ImportedPerson, kept: ReadonlySet<string>): CatalogDocument =>
  formerId !== undefined && kept.has(formerId) ? { ...document, id: formerId } : document;
