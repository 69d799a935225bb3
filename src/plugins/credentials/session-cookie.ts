import type { CookieSerializeOptions } from '@fastify/cookie';
import { parseCookie } from 'cookie';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../../process/config.ts';

interface SessionCookies {
  session: string;
  /**
   * Name of the cookie that protects the login form against cross-site request forgery. The login form contains a token
   * that is valid only together with this cookie.
   */
  login: string;
  /** The attributes of both cookies, such as `HttpOnly`. */
  attributes: CookieSerializeOptions;
  tokenOf: (request: FastifyRequest) => string | undefined;
}

/** Lifetime of the cookies (seconds): 12 hours, the lifetime of a session. */
const maxAge = 12 * 60 * 60;

/**
 * Returns the names and attributes of the cookies. If `PUBLIC_URL` is an https URL, browsers send the cookies only over
 * https, and the names have the prefix `__Host-`, so that other hosts (such as a subdomain) cannot set the cookies.
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

export const isHttps = (publicUrl: string | undefined): boolean => publicUrl?.startsWith('https:') === true;
