import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Database } from '../../database/db.ts';
import type { FeedPosition } from './feed.ts';

/** Signs places in feeds, so that callers cannot make up one, or use one of another customer. */
export class FeedCursors {
  readonly #key: Buffer;

  /** @param secret a secret of the installation, which lives in its database */
  constructor(secret: Buffer) {
    this.#key = createHmac('sha256', secret).update('cursors of the feed of changes').digest();
  }

  /** Returns the cursor of a place in a customer's feed. */
  encode(customerId: string, { position, id }: FeedPosition): string {
    const place = Buffer.alloc(placeLength);
    place.writeBigUInt64BE(BigInt(position));
    if (id !== null) place.write(id.replaceAll('-', ''), 8, 'hex');
    return Buffer.concat([place, this.#sign(customerId, place)]).toString('base64url');
  }

  /** Returns the place of a cursor, or undefined if it was changed or is not of this customer. */
  decode(customerId: string, cursor: string): FeedPosition | undefined {
    const bytes = Buffer.from(cursor, 'base64url');
    // Several texts can be decoded to the same bytes; one is the cursor.
    if (bytes.length !== placeLength + macLength || bytes.toString('base64url') !== cursor) return undefined;
    const place = bytes.subarray(0, placeLength);
    if (!timingSafeEqual(bytes.subarray(placeLength), this.#sign(customerId, place))) return undefined;
    const position = Number(place.readBigUInt64BE());
    const hex = place.toString('hex', 8);
    return { position, id: position === 0 ? null : hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-') };
  }

  #sign(customerId: string, place: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(customerId).update(place).digest().subarray(0, macLength);
  }
}

/** Length of a place: position and id (bytes). */
const placeLength = 8 + 16;
/** Length of a signature (bytes). */
const macLength = 16;

/** Reads the secret of the installation. It is the same after a dump and restore, so cursors stay valid. */
export async function openCursors(db: Database): Promise<FeedCursors> {
  const [state] = await db.lookup(
    (sql) => sql<[{ person_id_secret: Buffer }]>`select person_id_secret from catalog_state`,
  );
  return new FeedCursors(state.person_id_secret);
}
