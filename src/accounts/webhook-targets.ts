import { randomBytes, createCipheriv, createDecipheriv } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isIP } from 'node:net';
import { unavailable } from '../errors.ts';
import { createOnce, ignoring } from '../process/files.ts';
import { isWithin, normaliseAddress, parseRanges, innerAddress, isPublic } from '../process/ip-addresses.ts';
import type { AddressRanges } from '../process/ip-addresses.ts';
import type { Config } from '../process/config.ts';

const fileName = 'webhook-secret-key';

/**
 * Returns the key that encrypts the secrets of webhooks, from a file in the data folder of the embedded PostgreSQL.
 * Creates the file if it is missing. Several processes may call this at once, and all get the same key.
 */
export async function keyFromFile(dataDir: string): Promise<string> {
  const path = join(dataDir, fileName);
  const read = async () => (await readFile(path, 'utf8').catch(ignoring('ENOENT')))?.trim();
  const known = await read();
  if (known !== undefined) return known;
  await createOnce(path, `${randomBytes(32).toString('base64')}\n`);
  return (await read())!;
}

/**
 * Encrypts and decrypts the secrets of webhook endpoints by AES-256-GCM, with the key of the installation
 * (`WEBHOOK_SECRET_KEY`).
 */
export class SecretBox {
  readonly #key: Buffer;

  constructor(key: string) {
    this.#key = Buffer.from(key, 'base64');
  }

  /**
   * Encrypts a secret.
   * @param customerId needed again to decrypt: a copy in another customer's row cannot be decrypted
   */
  seal(customerId: string, secret: string): Buffer {
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv(algorithm, this.#key, iv).setAAD(Buffer.from(customerId));
    return Buffer.concat([iv, cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
  }

  /**
   * Decrypts a secret.
   * @throws Error if the secret was sealed with another key, or for another customer
   */
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

/** @throws DomainError `unavailable` if the installation has no key for webhook secrets */
export function requireSecretBox(key: string | undefined): SecretBox {
  if (key === undefined)
    throw unavailable('Webhooks are not set up on this installation: it has no WEBHOOK_SECRET_KEY', 60);
  return new SecretBox(key);
}

export const newSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

export interface TargetRules {
  allowHttp: boolean;
  allowPrivate: boolean;
  denied: AddressRanges;
}

export const targetRules = (config: Config): TargetRules => ({
  allowHttp: config.WEBHOOK_ALLOW_HTTP === 'on',
  allowPrivate: config.WEBHOOK_ALLOW_PRIVATE === 'on',
  denied: config.WEBHOOK_DENY === undefined ? [] : parseRanges(config.WEBHOOK_DENY).ranges,
});

/**
 * Returns true if webhooks may be sent to this IP address. Also checks the IPv4 address that an IPv6 address can
 * contain.
 */
export function mayConnectTo(address: string, { allowPrivate, denied }: TargetRules): boolean {
  const inner = innerAddress(address);
  if (!allowPrivate && !isPublic(inner)) return false;
  return ![address, inner].some((one) => isWithin(denied, normaliseAddress(one)!));
}

const lowestFreePort = 1024;
const httpsPort = 443;

/** Returns why an endpoint cannot have this URL, or undefined if it can. Does not look up the host name. */
export function faultOfUrl(text: string, rules: TargetRules): string | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be a URL such as https://example.com/webhooks';
  if (url.protocol === 'http:' && !rules.allowHttp) return 'must begin with https://';
  if (url.username !== '' || url.password !== '') return 'must not contain a user or a password';
  const port = Number(url.port || (url.protocol === 'https:' ? httpsPort : 80));
  if (port !== httpsPort && port < lowestFreePort) return 'must have the port 443, or one from 1024 on';
  const host = hostOf(url);
  if (isIP(host) && !mayConnectTo(host, rules)) return 'must have a public address';
  return undefined;
}

export const hostOf = (url: { hostname: string }): string => url.hostname.replace(/^\[(.*)\]$/, '$1');
