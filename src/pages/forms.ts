import { Tokens } from '@fastify/csrf';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, validationFailed, type Fault } from '../errors.ts';
import { statuses } from '../plugins/answers/error-handler.ts';
import { sessionCookies } from '../plugins/credentials/session-cookie.ts';
import { canonicalId } from '../text/ids.ts';
import { findUnstorableText } from '../text/unstorable.ts';
import type { Validator } from '../validation/validator.ts';
import { html, type Html } from './html.ts';

/** The fields of a submitted form. If several fields have the same name, their values are in an array. */
export type Fields = Record<string, string | string[] | undefined>;

// The salt makes each token unique: the token of a form also says whether the form was sent before.
const tokens = new Tokens({ saltLength: 22 });

/** Name of the hidden form field with the token against cross-site request forgery (CSRF). */
export const tokenField = 'form_token';

/**
 * Creates the token that protects a form against cross-site request forgery (CSRF). The token is valid only together
 * with the user's session. The token of the login form is valid only together with a cookie, which this function sets.
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

/**
 * Returns the secret with which the form tokens of a request are created: the hash of the session token, or the value
 * of the login form's cookie.
 */
const secretOf = ({ caller, cookies, server }: FastifyRequest): string | undefined =>
  caller?.kind === 'session'
    ? caller.tokenHash.toString('base64url')
    : cookies[sessionCookies(server.config).login] || undefined; // a cookie can be empty

/**
 * Checks the token of a submitted form.
 * @throws DomainError `forbidden` if the token is missing or wrong.
 */
export function requireToken(request: FastifyRequest, fields: unknown): void {
  const secret = secretOf(request);
  if (secret !== undefined && tokens.verify(secret, tokenOf(fields))) return;
  request.log.info('a form without a valid token');
  throw new DomainError('forbidden', 'This form is too old, or it was not sent from a page of yours. Open it again.');
}

/** Returns the token of a submitted form, or an empty string if the form has no token. */
export function tokenOf(fields: unknown): string {
  const token = (fields as Fields | null | undefined)?.[tokenField];
  return typeof token === 'string' ? token : '';
}

/** Returns the fields of the submitted form in a request body. */
export const fieldsOf = ({ body }: FastifyRequest): Fields => (body ?? {}) as Fields;

/**
 * Returns the value of a form field, or an empty string if the field is missing. If several fields have the same name,
 * returns the first value.
 */
export const text = (fields: Fields, name: string): string => [fields[name] ?? []].flat()[0] ?? '';

/** Returns the values of all form fields with the same name. */
export const values = (fields: Fields, name: string): string[] => [fields[name] ?? []].flat();

/**
 * Converts the value of a form field to a number. Returns other texts unchanged, so that the validation rejects them
 * with a message.
 */
export const integer = (fields: Fields, name: string): number =>
  /^\d{1,9}$/.test(text(fields, name)) ? Number(text(fields, name)) : (text(fields, name) as never);

/** Error messages for a form, by field name. The message for the whole form has an empty string as its key. */
export type Faults = Record<string, string>;

/**
 * Validates the values of a form against the schema of the corresponding API request. Returns the error messages by
 * field name.
 */
export function faultsOf(validator: Validator, value: unknown): Faults {
  return byField([...findUnstorableText(value), ...validator.faultsOf(value)]);
}

/** Returns the first validation error of each field, by field name. */
export function byField(faults: readonly Fault[]): Faults {
  const named = faults.map(({ path, message }) => [path.split('/')[1] ?? '', sentence(message)] as const);
  return Object.fromEntries(named.toReversed());
}

/**
 * Returns the error messages for a form and the HTTP status of the response, if the submitted values caused the error.
 * Throws every other error again.
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
 * @param noun The kind of record, for the error message.
 * @throws DomainError `not_found` if the id is not a UUID.
 */
export function idOf({ params }: FastifyRequest, noun: string): string {
  const { id = '' } = params as { id?: string };
  const canonical = canonicalId(id);
  if (canonical === undefined) throw new DomainError('not_found', `No such ${noun}`);
  return canonical;
}

/** Returns the query parameters of a request. */
export const queryOf = ({ query }: FastifyRequest): Fields => (query ?? {}) as Fields;

/**
 * Returns the query parameter `page` of a request: 1 to 10,000. The default is 1.
 * @throws DomainError `validation_failed` if the number is not valid.
 */
export function pageNumberOf(request: FastifyRequest): number {
  const page = Number(text(queryOf(request), 'page') || '1');
  if (!Number.isInteger(page) || page < 1 || page > 10_000)
    throw validationFailed([{ path: '', message: 'there is no such page' }]);
  return page;
}

/** The name, label, hint and error messages of a form field. */
export interface FieldOptions {
  name: string;
  label: string;
  hint?: string;
  faults: Faults;
}

/**
 * Returns the HTML of a form field with its label, its hint and its error message.
 * @param control Returns the HTML of the input element with the given attributes.
 */
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

/** Returns the HTML of a form field's error message, or an empty string if the field has no error. */
export const faultText = (name: string, faults: Faults): Html =>
  faults[name] ? html`<small class="fault" id="${name}-fault">${faults[name]}</small>` : '';

/**
 * Returns the HTML of a form's error messages: those for the whole form, and those for fields that the form does not
 * show.
 * @param shown The names of the fields that the form shows.
 */
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
