import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { unavailable } from '../errors.ts';

/** Encrypts the secrets of endpoints with the key of the installation (`WEBHOOK_SECRET_KEY`), by AES-256-GCM. */
export class SecretBox {
  readonly #key: Buffer;

  /** @param key 32 bytes in base64 */
  constructor(key: string) {
    this.#key = Buffer.from(key, 'base64');
  }

  /** @param customerId without which the secret cannot be read, so that it is of no use in the row of another customer */
  seal(customerId: string, secret: string): Buffer {
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv(algorithm, this.#key, iv).setAAD(Buffer.from(customerId));
    return Buffer.concat([iv, cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
  }

  /** @throws Error if the secret was sealed with another key, or for another customer */
  open(customerId: string, sealed: Buffer): string {
    const decipher = createDecipheriv(algorithm, this.#key, sealed.subarray(0, ivBytes))
      .setAAD(Buffer.from(customerId))
      .setAuthTag(sealed.subarray(-tagBytes));
    return Buffer.concat([decipher.update(sealed.subarray(ivBytes, -tagBytes)), decipher.final()]).toString();
  }
}

const algorithm = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;

/** @throws DomainError `unavailable` if the installation has no key */
export function requireSecretBox(key: string | undefined): SecretBox {
  if (key === undefined)
    throw unavailable('Webhooks are not set up on this installation: it has no WEBHOOK_SECRET_KEY', 60);
  return new SecretBox(key);
}

/** Returns a new secret in the form of Standard Webhooks. */
export const newSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;
