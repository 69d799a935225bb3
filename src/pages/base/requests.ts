import { randomUUID } from 'node:crypto';
import { parse } from 'node:querystring';
import { Tokens } from '@fastify/csrf';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Sql, Transaction } from '../../database/db.ts';
import { spenderOf, type Spender } from '../../access/credentials.ts';
import { DomainError, fromDatabase, notFound, SpendCapExceeded, validationFailed, type Fault } from '../../errors.ts';
import { statuses } from '../../plugins/error-handler.ts';
import { sessionCookies, sessionOf } from '../../plugins/auth.ts';
import { findSent, markSent } from '../../queries/records/idempotency.ts';
import { etagOf, canonicalId } from '../../text/ids.ts';
import { tokensOf, findUnstorableText } from '../../text/json.ts';
import type { Validator, MessageFor } from '../../validation/validator.ts';
import { counted, type Html } from './html.ts';
import type { Format } from '../../schemas/formats.ts';

/* How pages read what was sent and asked for, and refuse it. */
/** Stands in a page for the token of each form until the page is sent. */
export const tokenMark = randomUUID();

export type Fields = Record<string, string | string[] | undefined>;

const maxFields = 1_000;

/**
 * Reads the body of a form.
 * @throws DomainError `payload_too_large` if it has too many fields
 */
export function readForm(body: string): Fields {
  let count = 1;
  for (let at = body.indexOf('&'); at !== -1; at = body.indexOf('&', at + 1)) count += 1;
  if (count > maxFields)
    throw new DomainError('payload_too_large', `The form has more than ${maxFields.toLocaleString('en')} fields`);
  return parse(body, '&', '=', { maxKeys: 0 });
}

// The salt makes each token unique: the token of a form also says whether the form was sent before.
const tokens = new Tokens({ saltLength: 22 });

/** Hidden form field with the token against cross-site request forgery (CSRF). */
export const tokenField = 'form_token';

/**
 * Gives each form of a page a token that is valid only with the user's session. The token of the login form is valid
 * only with a cookie, which this function sets.
 */
export function withTokens(request: FastifyRequest, reply: FastifyReply, page: Html): Html {
  if (!page.includes(tokenMark)) return page;
  const secret = secretOf(request) ?? newSecret(request, reply);
  return page.replaceAll(tokenMark, () => tokens.create(secret));
}

function newSecret({ server }: FastifyRequest, reply: FastifyReply): string {
  const { login, attributes } = sessionCookies(server.config);
  const secret = tokens.secretSync();
  void reply.setCookie(login, secret, attributes);
  return secret;
}

const secretOf = ({ caller, cookies, server }: FastifyRequest): string | undefined =>
  caller?.kind === 'session'
    ? caller.tokenHash.toString('base64url')
    : cookies[sessionCookies(server.config).login] || undefined; // a cookie can be empty

/**
 * Checks the CSRF token of a form.
 * @throws DomainError `forbidden` if the token is missing or wrong
 */
export function requireToken(request: FastifyRequest, fields: unknown): void {
  const secret = secretOf(request);
  if (secret !== undefined && tokens.verify(secret, tokenOf(fields))) return;
  request.log.info('a form without a valid token');
  throw new DomainError('forbidden', 'This form is too old, or it was not sent from a page of yours. Open it again.');
}

/** Runs the action of a form in a transaction. Does nothing and returns undefined if the form was sent before. */
export const once = <T>(request: FastifyRequest, act: (sql: Transaction) => Promise<T>): Promise<T | undefined> =>
  request.db.transaction(async (sql) =>
    (await markSent(sql, request.caller.customerId, sentForm(request))) ? act(sql) : undefined,
  );

type Query<Connection, Rest extends unknown[], T> = (sql: Connection, customerId: string, ...rest: Rest) => Promise<T>;

/** Runs a query for the customer of a request, as `lookup` of the database does. */
export const lookUp = <Rest extends unknown[], T>(
  { db, caller }: FastifyRequest,
  query: Query<Sql, Rest, T>,
  ...rest: Rest
): Promise<T> => db.lookup((sql) => query(sql, caller.customerId, ...rest));

export const search = <Rest extends unknown[], T>(
  { db, caller }: FastifyRequest,
  query: Query<Sql, Rest, T>,
  ...rest: Rest
): Promise<T> => db.search((sql) => query(sql, caller.customerId, ...rest));

export const write = <Rest extends unknown[], T>(
  { db, caller }: FastifyRequest,
  query: Query<Transaction, Rest, T>,
  ...rest: Rest
): Promise<T> => db.transaction((sql) => query(sql, caller.customerId, ...rest));

/** Says whether this form took effect before: with the same values, or with others after a step back in the browser. */
export const sentEarlier = (request: FastifyRequest): Promise<'same' | 'other' | undefined> =>
  request.db.lookup((sql) => findSent(sql, request.caller.customerId, sentForm(request)));

const sentForm = (request: FastifyRequest) => ({ token: tokenOf(request.body), fields: fieldsOf(request) });

export function tokenOf(fields: unknown): string {
  const token = (fields as Fields | null | undefined)?.[tokenField];
  return typeof token === 'string' ? token : '';
}

export const priceField = 'price';

/** Returns the spender for a form's action. It pays at most the price that the page has shown. */
export const payerOf = (request: FastifyRequest): Spender => ({
  ...spenderOf(request.caller),
  maxCredits: Number(/^\d{1,15}$/.exec(text(fieldsOf(request), priceField))?.[0] ?? 0),
});

export const fieldsOf = ({ body }: FastifyRequest): Fields => (body ?? {}) as Fields;

export const text = (fields: Fields, name: string): string => [fields[name] ?? []].flat()[0] ?? '';

/** Returns the text of a field with LF line breaks. Browsers send CR LF. */
export const linesIn = (fields: Fields, name: string): string => text(fields, name).replaceAll('\r\n', '\n');

/** Returns what `linesIn` returns for a stored text that the person did not change. */
export const asSentBack = (stored: string): string => stored.replaceAll(/\r\n?/g, '\n');

/**
 * Returns the stored text that a browser sends back as `given`, or `given` if there is none. A form therefore keeps
 * texts that the person did not change.
 */
export const unchanged = (given: string, stored: readonly string[]): string => {
  const sent = asSentBack(given);
  return stored.find((one) => asSentBack(one) === sent) ?? sent;
};

/**
 * Returns the values of all form fields with the same name.
 * @param most maximum number of values, as in the schema of the API's call
 * @throws DomainError `validation_failed` for more values, because a page draws a row for each
 */
export function values(fields: Fields, name: string, most: number): string[] {
  const given = [fields[name] ?? []].flat();
  if (given.length > most)
    throw validationFailed([
      { path: '', message: `at most ${most.toLocaleString('en')} of these can be sent at once` },
    ]);
  return given;
}

/** Returns the different ids in the form fields with a name, without what is not an id. */
export const idsIn = (fields: Fields, name: string, most: number): string[] => [
  ...new Set(values(fields, name, most).flatMap((id) => canonicalId(id) ?? [])),
];

/** Returns the field as a number. Returns text that is not an integer unchanged, and the validation rejects it. */
export const integer = (fields: Fields, name: string): number =>
  /^\d{1,10}$/.test(text(fields, name)) ? Number(text(fields, name)) : (text(fields, name) as never);

/** Error messages by field name. The message of the whole form has an empty string as its key. */
export type Faults = Record<string, string>;

export interface Refused {
  faults: Faults;
  status: number;
}

export const notSent: Refused = { faults: {}, status: 200 };

/** Returns true if the record was changed since the form was opened. Compares with `versionField`. */
export const isOutdated = (request: FastifyRequest, stored: object): boolean =>
  sentText(request, 'etag') !== etagOf(stored);

export const conflictOf = (noun: string): Refused => ({
  faults: {
    '':
      `Somebody changed this ${noun} while you were editing it, and nothing of yours is saved yet. Save to keep what ` +
      'the form shows.',
  },
  status: statuses.precondition_failed,
});

/**
 * Validates a form's values against the schema of the corresponding API request.
 * @param others faults that the schema does not see
 * @throws DomainError `validation_failed`
 */
export function requireValid(validator: Validator, value: unknown, others: readonly Fault[] = []): void {
  const faults = [...others, ...findUnstorableText(value), ...validator.faultsOf(value, formMessage)];
  if (faults.length > 0) throw validationFailed(faults);
}

export function byField(faults: readonly Fault[]): Faults {
  const named = faults.map(({ path, message }) => [controlAt(path), sentence(message)] as const);
  return Object.fromEntries(named.toReversed());
}

function controlAt(path: string): string {
  const [name = '', key] = tokensOf(path);
  return name === 'custom_fields' && key !== undefined ? customName(key) : name;
}

/** Returns the name of the control of a custom field. Encodes the key, because browsers change line breaks in names. */
export const customName = (key: string): string => `custom.${encodeURIComponent(key)}`;

/** Converts an error that the form's values caused to a refusal. Throws every other error. */
export function refusalOf(thrown: unknown): Refused {
  const error = fromDatabase(thrown) ?? thrown;
  if (error instanceof SpendCapExceeded) return { faults: { '': dearerText }, status: statuses[error.code] };
  if (!(error instanceof DomainError)) throw error;
  if (error.code !== 'validation_failed' && error.code !== 'conflict' && error.code !== 'not_found') throw error;
  const faults = error.faults.length > 0 ? byField(error.faults) : { '': sentence(error.message) };
  return { faults, status: statuses[error.code] };
}

export const dearerText = 'By now it would cost more, so nothing is started yet. This is the price now.';

export const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;

/**
 * Returns the id in a request's path.
 * @param noun names the kind of record in the error message
 * @throws DomainError `not_found` if the id is not a UUID
 */
export function idOf({ params }: FastifyRequest, noun: string): string {
  const { id = '' } = params as { id?: string };
  const canonical = canonicalId(id);
  if (canonical === undefined) throw notFound(noun);
  return canonical;
}

export const isAdmin = (request: FastifyRequest): boolean => sessionOf(request).role === 'admin';

export const queryOf = ({ query }: FastifyRequest): Fields => (query ?? {}) as Fields;

export const queryText = (request: FastifyRequest, name: string): string => text(queryOf(request), name);

export const sentText = (request: FastifyRequest, name: string): string => text(fieldsOf(request), name);

/**
 * Returns the query parameter `page`, by default 1.
 * @throws DomainError `validation_failed` unless it is from 1 to 10,000
 */
export function pageNumberOf(request: FastifyRequest): number {
  const page = Number(queryText(request, 'page') || '1');
  if (!Number.isInteger(page) || page < 1 || page > 10_000)
    throw validationFailed([{ path: '', message: 'there is no such page' }]);
  return page;
}

export const formMessage: MessageFor = ({ keyword, params, message = 'is not valid' }) => {
  const limit = Number(params['limit']);
  switch (keyword) {
    case 'required':
    case 'dependentRequired':
      return 'is missing';
    case 'minLength':
      return limit === 1 ? 'must not be empty' : `must have at least ${counted(limit, 'character')}`;
    case 'maxLength':
      return `can have at most ${counted(limit, 'character')}`;
    case 'minItems':
      return limit === 1 ? 'choose at least one' : `choose at least ${limit}`;
    case 'maxItems':
      return `can have at most ${counted(limit, 'value')}`;
    case 'maxProperties':
      return `can have at most ${counted(limit, 'field')}`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'type':
      return types[String(params['type']).split(',')[0] as keyof typeof types] ?? 'is not valid';
    case 'enum':
      return 'choose one of the choices';
    case 'format':
      return formats[params['format'] as Format];
    default:
      return message;
  }
};

const types = {
  number: 'must be a number, such as 1249.50',
  integer: 'must be a whole number',
  string: 'must be a text',
};

const formats: Record<Format, string> = {
  uuid: 'choose one of the choices',
  email: 'must be an e-mail address',
  'date-time': 'choose a date',
  'feed-start': 'choose a date and a time',
  domain: 'must be a domain, such as example.com, or a web address',
  name: 'must have 1 to 255 characters',
  'key-name': 'must have 1 to 120 characters',
  country: 'choose a country',
  currency: 'must be the code of a currency, such as EUR',
};
