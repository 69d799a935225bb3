import { isIP } from 'node:net';
import { isWithin, normaliseAddress, parseRanges, type AddressRanges } from '../network/ip-addresses.ts';
import { innerAddress, isPublic } from '../network/public-address.ts';
import type { Config } from '../process/config.ts';

/** Where endpoints may be. */
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

/** An IPv6 address that holds an IPv4 address is judged by that one. */
export function mayConnectTo(address: string, { allowPrivate, denied }: TargetRules): boolean {
  const inner = innerAddress(address);
  if (!allowPrivate && !isPublic(inner)) return false;
  return ![address, inner].some((one) => isWithin(denied, normaliseAddress(one)!));
}

const lowestFreePort = 1024;
const httpsPort = 443;

/** Returns why an endpoint cannot have this URL, or undefined if it can. Does not look up the host's name. */
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

/** Returns the name or the IP address in a URL, without brackets. */
export const hostOf = (url: { hostname: string }): string => url.hostname.replace(/^\[(.*)\]$/, '$1');
