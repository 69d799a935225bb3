import type { CookieSerializeOptions } from '@fastify/cookie';
import { parseCookie } from 'cookie';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';

/** The cookies of the pages under `/app`: their names and attributes. */
export interface SessionCookies {
  /** Name of the cookie that holds the session token. */
  session: string;
  /** Name of the cookie to which the token of the login form is bound. It protects the form before there is a session. */
  login: string;
  /** Attributes of both cookies. */
  attributes: CookieSerializeOptions;
  /** Returns the session token in the cookie of a request; undefined if it has no such cookie. */
  tokenOf: (request: FastifyRequest) => string | undefined;
}

/** Lifetime of the cookies in seconds: that of a session (12 hours). */
const maxAge = 12 * 60 * 60;

/**
 * Returns the cookies for this configuration. If `PUBLIC_URL` is https, browsers send them over https only, and their
 * names have the prefix `__Host-`: then no other host, such as a subdomain, can set them.
 */
export function sessionCookies({ PUBLIC_URL }: Config): SessionCookies {
  const secure = isHttps(PUBLIC_URL);
  const prefix = secure ? '__Host-' : '';
  const session = `${prefix}session`;
  return {
    session,
    login: `${prefix}login`,
    attributes: { httpOnly: true, sameSite: 'lax', path: '/', secure, maxAge },
    tokenOf: ({ headers: { cookie } }) => (cookie === undefined ? undefined : parseCookie(cookie)[session]),
  };
}

/** Returns whether callers reach the service over https. */
export const isHttps = (publicUrl: string | undefined): boolean => publicUrl?.startsWith('https:') === true;
