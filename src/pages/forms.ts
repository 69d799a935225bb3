import { Tokens } from '@fastify/csrf';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, validationFailed, type Fault } from '../errors.ts';
import { statuses } from '../plugins/error-handler.ts';
import { sessionCookies } from '../plugins/session-cookie.ts';
import { formats } from '../schemas/formats.ts';
import { findUnstorableText } from '../text/unstorable.ts';
import type { Validator } from '../validation/validator.ts';
import { html, type Html } from './html.ts';

/** The fields of a form that was sent. A name that occurs several times has an array. */
export type Fields = Record<string, string | string[] | undefined>;

// The salt makes each token unique: the token of a form also says whether the form was sent before.
const tokens = new Tokens({ saltLength: 22 });

/** Name of the field that holds the token of a form. */
export const tokenField = 'form_token';

/**
 * Creates the token of a form. It is bound to the session, so that the pages of other sites cannot send the form for the
 * user (cross-site request forgery). The login form is bound to a cookie instead, which is set here.
 */
export function formToken(request: FastifyRequest, reply: FastifyReply): string {
  return tokens.create(secretOf(request) ?? newSecret(request, reply));
}

function newSecret({ server }: FastifyRequest, reply: FastifyReply): string {
  const { login, attributes } = sessionCookies(server.config);
  const secret = tokens.secretSync();
  void reply.setCookie(login, secret, attributes);
  return secret;
}

/** Returns the secret to which the forms of a request are bound: its session or the cookie of the login form. */
const secretOf = ({ caller, cookies, server }: FastifyRequest): string | undefined =>
  caller?.kind === 'session'
    ? caller.tokenHash.toString('base64url')
    : cookies[sessionCookies(server.config).login] || undefined; // a cookie can be empty

/**
 * Checks the token of a form that was sent.
 * @throws forbidden if it is missing or wrong
 */
export function requireToken(request: FastifyRequest, fields: unknown): void {
  const secret = secretOf(request);
  if (secret !== undefined && tokens.verify(secret, tokenOf(fields))) return;
  request.log.info('a form without a valid token');
  throw new DomainError('forbidden', 'This form is too old, or it was not sent from a page of yours. Open it again.');
}

/** Returns the token in the fields of a form; `''` if there is none. */
export function tokenOf(fields: unknown): string {
  const token = (fields as Fields | null | undefined)?.[tokenField];
  return typeof token === 'string' ? token : '';
}

/** Returns the fields of the form in the body of a request. */
export const fieldsOf = ({ body }: FastifyRequest): Fields => (body ?? {}) as Fields;

/** Returns the text of a field; `''` if it is missing. */
export const text = (fields: Fields, name: string): string => [fields[name] ?? []].flat()[0] ?? '';

/** Returns all values of a field. */
export const values = (fields: Fields, name: string): string[] => [fields[name] ?? []].flat();

/** Returns the number in a field, or its text if it is none. The validation then says what is allowed. */
export const integer = (fields: Fields, name: string): number =>
  /^\d{1,9}$/.test(text(fields, name)) ? Number(text(fields, name)) : (text(fields, name) as never);

/** What is wrong with a form, for each of its fields; `''` is the form as a whole. */
export type Faults = Record<string, string>;

/** Validates the value that was made of a form, with the same rules as the body of a request to the API. */
export function faultsOf(validator: Validator, value: unknown): Faults {
  return byField([...findUnstorableText(value), ...validator.faultsOf(value)]);
}

/** Returns for each field the first of its faults. */
export function byField(faults: readonly Fault[]): Faults {
  const named = faults.map(({ path, message }) => [path.split('/')[1] ?? '', sentence(message)] as const);
  return Object.fromEntries(named.toReversed());
}

/**
 * Returns what an error says about a form, and the status of the page that shows it. Throws the error if it is about
 * something else.
 */
export function refusalOf(error: unknown): { faults: Faults; status: number } {
  if (!(error instanceof DomainError)) throw error;
  if (error.code !== 'validation_failed' && error.code !== 'conflict' && error.code !== 'not_found') throw error;
  const faults = error.faults.length > 0 ? byField(error.faults) : { '': sentence(error.message) };
  return { faults, status: statuses[error.code] };
}

const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;

/**
 * Returns the id in the path of a request.
 * @throws not_found if it is no id
 */
export function idOf({ params }: FastifyRequest, noun: string): string {
  const { id = '' } = params as { id?: string };
  if (!formats['uuid']!(id)) throw new DomainError('not_found', `No such ${noun}`);
  return id;
}

/** Returns the parameters after the `?` of a request. */
export const queryOf = ({ query }: FastifyRequest): Fields => (query ?? {}) as Fields;

/** Returns the number of the page of a list that a request asks for: 1 to 10,000. */
export function pageNumberOf(request: FastifyRequest): number {
  const page = Number(text(queryOf(request), 'page') || '1');
  if (!Number.isInteger(page) || page < 1 || page > 10_000)
    throw validationFailed([{ path: '', message: 'there is no such page' }]);
  return page;
}

/** A field of a form, with its label. */
export interface FieldOptions {
  name: string;
  label: string;
  hint?: string;
  faults: Faults;
}

/** Returns a field with its label, its hint, and what is wrong with it. */
export function field({ name, label, hint, faults }: FieldOptions, control: (attributes: Html) => Html): Html {
  const fault = faults[name];
  const described = [hint && `${name}-hint`, fault && `${name}-fault`].filter(Boolean).join(' ');
  const attributes = [
    html`id="${name}" name="${name}"`,
    described && html`aria-describedby="${described}"`,
    fault && 'aria-invalid="true"',
  ];
  return html`<div class="field">
    <label for="${name}">${label}</label>
    !${control(attributes.filter(Boolean).join(' '))} !${hint ? html`<small id="${name}-hint">${hint}</small>` : ''}
    !${faultText(name, faults)}
  </div>`;
}

/** Returns what is wrong with a field; nothing if it is right. */
export const faultText = (name: string, faults: Faults): Html =>
  faults[name] ? html`<small class="fault" id="${name}-fault">${faults[name]}</small>` : '';

/** Returns what is wrong with a form as a whole, and with fields that it does not show. */
export function formFaults(faults: Faults, shown: readonly string[]): Html {
  const others = Object.entries(faults).filter(([name]) => !shown.includes(name));
  if (Object.keys(faults).length === 0) return '';
  const texts = others.map(([, fault]) => fault);
  return html`<div class="notice bad" role="alert">
    <p>${texts.length > 0 ? texts.join(' ') : 'Please look at the marked fields.'}</p>
  </div>`;
}

/** Returns an `<option>` of a `<select>`. */
export const option = (value: string, label: string, chosen: string): Html =>
  html`<option value="${value}" !${value === chosen ? 'selected' : ''}>${label}</option>`;
