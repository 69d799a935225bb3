import { createHash, createHmac } from 'node:crypto';
import type { Database } from '../../database/db.ts';
import { findPersonIdSecret } from '../../queries/catalog/catalog-imports.ts';
import { findUnlockingCustomers } from '../../queries/catalog/unlocks.ts';
import type { Catalog } from '../catalog.ts';
import type { CatalogDocument } from '../document.ts';

/** The id of an imported person. */
export interface PersonId {
  id: string;
  /** The id that earlier releases computed for this person. Undefined if it is the same. */
  former?: string;
}

/** Computes the ids of imported people who have none. The same person always gets the same id. */
export class PersonIds {
  readonly #secret: Buffer;

  constructor(secret: Buffer) {
    this.#secret = secret;
  }

  static async open(db: Database): Promise<PersonIds> {
    return new PersonIds(await db.lookup(findPersonIdSecret));
  }

  /** Returns the id for a profile URL: the UUIDv5 (RFC 9562 §5.5) of the URL in lower case. */
  ofUrl(url: string): PersonId {
    return { id: uuidOfUrl(url.toLowerCase()) };
  }

  // Customers see the id of a person whose address they have not paid for. Without the secret, they could test guessed
  // addresses against a plain hash.
  /**
   * Returns the id for an e-mail address: a UUIDv8 (RFC 9562 §5.8) of the HMAC-SHA-256 of the address in lower case
   * under the secret of this installation.
   */
  ofEmail(email: string): PersonId {
    const address = email.toLowerCase();
    const digest = createHmac('sha256', this.#secret).update(address).digest();
    return { id: toUuid(digest, 8), former: uuidOfUrl(`mailto:${address}`) };
  }
}

/** The namespace of URLs in RFC 9562 §6.6, as bytes. It is used to compute a UUIDv5 from a URL. */
const urlNamespace = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex');

/** Returns the UUIDv5 that is computed from a URL (RFC 9562 §5.5). Equal URLs give equal UUIDs. */
export const uuidOfUrl = (url: string): string =>
  toUuid(createHash('sha1').update(urlNamespace).update(url).digest(), 5);

/** Returns the first 16 bytes of a digest as a UUID of this version. */
function toUuid(digest: Buffer, version: number): string {
  const bytes = digest.subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | (version << 4);
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** An imported person, with the id that earlier releases computed for this person, if it differs. */
export interface ImportedPerson {
  document: CatalogDocument;
  formerId: string | undefined;
}

/**
 * Returns the former ids that people keep: those under which the catalog has a person, or under which a customer has
 * unlocked (paid to see) a person.
 */
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

/** Returns the document of an imported person with the former id, if the person keeps it. */
export const withKeptId = ({ document, formerId }: ImportedPerson, kept: ReadonlySet<string>): CatalogDocument =>
  formerId !== undefined && kept.has(formerId) ? { ...document, id: formerId } : document;
