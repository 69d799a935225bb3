import { isIP, type LookupFunction } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { Agent, buildConnector, request, type Dispatcher } from 'undici';
import packageJson from '../../package.json' with { type: 'json' };
import type { Config } from '../process/config.ts';
import { within } from '../process/event-loop.ts';
import type { DeliveryError, TestResult } from '../schemas/webhooks.ts';
import { openDns } from '../verification/mail-hosts.ts';
import { hostOf, mayConnectTo, targetRules, type TargetRules } from './webhook-targets.ts';

export interface Message {
  url: string;
  /** Id of the event, by which the receiver recognises a repeated message. */
  id: string;
  body: string;
  sentAt: Date;
  secrets: readonly string[];
}

export interface Outcome extends TestResult {
  /** Seconds after which the receiver wants a retry (`Retry-After`), or null. */
  retryAfter: number | null;
}

export interface Sender {
  /**
   * Sends one POST. Never rejects.
   * @param signal if it aborts, the outcome is a time-out
   */
  send(message: Message, timeoutMs: number, signal?: AbortSignal): Promise<Outcome>;
  close(): Promise<void>;
}

export interface SenderParts {
  /** Looks up the addresses of a host name. An empty array or an error means that the name does not exist. */
  resolve?: (host: string) => Promise<readonly string[]>;
  dial?: (addresses: readonly string[]) => buildConnector.connector;
}

export function openSender(config: Config, parts: SenderParts = {}): Sender {
  const dns = openDns({ servers: [], timeoutMs: dnsTimeoutMs, tries: 2, canaries: [] });
  const lookUp = async (host: string) => {
    const found = await dns.addresses(host);
    return found.status === 'found' ? found.addresses : [];
  };
  const { resolve = lookUp, dial = dialTo } = parts;
  const connect = checkedConnector(targetRules(config), { resolve, dial });
  const dispatcher = new Agent({
    connect,
    allowH2: false,
    pipelining: 1,
    keepAliveTimeout: idleMs,
    keepAliveMaxTimeout: idleMs,
  });
  return {
    send: (message, timeoutMs, signal) => post(dispatcher, message, timeoutMs, signal),
    close: async () => {
      dns.close();
      await dispatcher.destroy();
    },
  };
}

const dnsTimeoutMs = 2_500;
const idleMs = 5_000;

class AddressRefused extends Error {}
class NameUnknown extends Error {}
class TimeIsUp extends Error {}

/**
 * Returns a connector that looks up a host, and connects to one of its addresses that the rules allow. It does not look
 * up the host a second time, which could give another address.
 */
function checkedConnector(rules: TargetRules, { resolve, dial }: Required<SenderParts>): buildConnector.connector {
  const allowedAddresses = async (host: string): Promise<readonly string[]> => {
    const found = isIP(host) ? [host] : isLocalhost(host) ? ['127.0.0.1', '::1'] : await resolve(host).catch(() => []);
    if (found.length === 0) throw new NameUnknown('The name has no address');
    const allowed = found.filter((address) => mayConnectTo(address, rules));
    if (allowed.length === 0) throw new AddressRefused('No address of the host is allowed');
    return allowed;
  };
  const connect = async (...[options, callback]: Parameters<buildConnector.connector>): Promise<void> => {
    try {
      dial(await allowedAddresses(hostOf(options)))(options, callback);
    } catch (error) {
      callback(error as Error, null);
    }
  };
  return (options, callback) => void connect(options, callback);
}

const isLocalhost = (host: string): boolean => /(^|\.)localhost\.?$/i.test(host);

function dialTo(addresses: readonly string[]): buildConnector.connector {
  const known = addresses.map((address) => ({ address, family: isIP(address) }));
  const lookup: LookupFunction = (_host, { all }, callback) =>
    all ? callback(null, known) : callback(null, known[0]!.address, known[0]!.family);
  return buildConnector({ allowH2: false, timeout: connectTimeoutMs, lookup, maxCachedSessions: 0 });
}

const connectTimeoutMs = 10_000;

async function post(dispatcher: Dispatcher, message: Message, timeoutMs: number, signal?: AbortSignal) {
  const begun = performance.now();
  const elapsed = () => Math.round(performance.now() - begun);
  try {
    const sendOnce = (ending: AbortSignal) =>
      request(message.url, {
        dispatcher,
        method: 'POST',
        headers: headersOf(message),
        body: message.body,
        signal: ending,
        headersTimeout: 0,
        bodyTimeout: dropMs,
      });
    const { statusCode, headers, body } = await within(timeoutMs, signal, sendOnce, timeIsUp);
    discardBody(body);
    return { ...resultOf(statusCode), ms: elapsed(), retryAfter: retryAfterOf(headers) };
  } catch (error) {
    return { ok: false, status: null, error: errorOf(error), ms: elapsed(), retryAfter: null };
  }
}

const timeIsUp = (): never => {
  throw new TimeIsUp();
};

const headersOf = ({ id, sentAt, secrets, body }: Message) => ({
  'content-type': 'application/json',
  'user-agent': `sales-data-api/${packageJson.version}`,
  'webhook-id': id,
  'webhook-timestamp': String(Math.floor(sentAt.getTime() / 1000)),
  'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, sentAt, body)).join(' '),
});

/**
 * Limits for reading a response body that nobody uses (bytes, ms). A connection can be reused only after the whole body
 * is read.
 */
const dropBytes = 16 * 1024;
const dropMs = 1_000;

function discardBody(body: Dispatcher.ResponseData['body']): void {
  body.on('error', () => undefined);
  body.dump({ limit: dropBytes, signal: AbortSignal.timeout(dropMs) }).catch(() => undefined);
}

function resultOf(status: number): Pick<Outcome, 'ok' | 'status' | 'error'> {
  if (status >= 200 && status < 300) return { ok: true, status, error: null };
  return { ok: false, status, error: status >= 300 && status < 400 ? 'redirect' : 'status' };
}

/**
 * Returns the seconds to wait that `Retry-After` asks for. The header can also contain a date: this is compared with
 * the receiver's own clock (`Date`).
 */
function retryAfterOf(headers: Record<string, string | string[] | undefined>): number | null {
  const value = [headers['retry-after']].flat()[0];
  if (value === undefined) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value);
  const now = Date.parse([headers['date']].flat()[0] ?? '') || Date.now();
  const seconds = Math.ceil((Date.parse(value) - now) / 1000);
  return Number.isFinite(seconds) && seconds > 0 ? seconds : null;
}

const tlsCodes =
  /^(ERR_TLS_|ERR_SSL_|CERT_|SELF_SIGNED_|DEPTH_ZERO_|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO$|INVALID_(CA|PURPOSE)|PATH_LENGTH_)/;

function errorOf(error: unknown): DeliveryError {
  if (error instanceof AddressRefused) return 'address';
  if (error instanceof NameUnknown) return 'dns';
  if (error instanceof TimeIsUp) return 'timeout';
  const { code = '' } = Object(error) as { code?: string };
  if (/TIMEOUT|ETIMEDOUT/.test(code)) return 'timeout';
  return tlsCodes.test(code) ? 'tls' : 'connect';
}
