import type { FeedEvent } from './events.ts';
import { SalesDataError } from './errors.ts';

/** The headers of a webhook: an object as Node has it, or `Headers`. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/** A webhook that is not from the service, was changed, or was sent too long ago. Answer it with 401. */
export class WebhookVerificationError extends SalesDataError {}

/**
 * Returns the event of a webhook that the service has signed (Standard Webhooks 1.0). The same event can come twice and
 * after later ones: its id, also in the header `webhook-id`, tells repeats.
 * @param body as it was received, not parsed: exactly these bytes are signed
 * @param secret of the endpoint, `whsec_…`
 * @param toleranceSeconds how old a webhook can be. An older one may have been recorded by somebody
 * @throws WebhookVerificationError
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string,
  toleranceSeconds = 300,
): Promise<FeedEvent> {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    headerOf(headers, name),
  ) as [string, string, string];
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1_000 - Number(timestamp)) > toleranceSeconds)
    throw new WebhookVerificationError('The webhook was sent too long ago, or will be');
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body);
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${text}`);
  const bytes = bytesOf(secret.replace(/^whsec_/, ''));
  if (!bytes) throw new SalesDataError('The secret of a webhook endpoint begins with whsec_');
  const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  // After a rotation there are two signatures for 24 hours.
  for (const one of signatures.split(' ')) {
    const [version, value = ''] = one.split(',');
    const signature = version === 'v1' ? bytesOf(value) : undefined;
    if (signature && (await crypto.subtle.verify('HMAC', key, signature, signed))) return JSON.parse(text) as FeedEvent;
  }
  throw new WebhookVerificationError('The webhook is not signed with this secret');
}

function headerOf(headers: WebhookHeaders, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : headers[name];
  if (typeof value !== 'string') throw new WebhookVerificationError(`The webhook has no header ${name}`);
  return value;
}

/** Returns undefined for a text that is not Base64. */
function bytesOf(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
