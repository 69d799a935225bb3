import { randomUUID } from 'node:crypto';
import { parse } from 'node:querystring';
import { Tokens } from '@fastify/csrf';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database, Sql, Transaction } from '../../database/db.ts';
import { spenderOf, type Spender } from '../../access/credentials.ts';
import { DomainError, conflict, notFound, validationFailed, fromDatabase, preconditionFailed } from '../../errors.ts';
import { SpendCapExceeded, type ErrorCode, type Fault } from '../../errors.ts';
import { sessionCookies, sessionOf } from '../../plugins/auth.ts';
import { estimateJob, prepareJob } from '../../jobs/job-types.ts';
import { startJob } from '../../jobs/start-job.ts';
import type { JobType } from '../../schemas/jobs.ts';
import { findSent, markSent } from '../../queries/records/idempotency.ts';
import { canonicalId, etagOf } from '../../text/ids.ts';
import { counted, type Html } from './html.ts';
import { statuses } from '../../plugins/error-handler.ts';
import { tokensOf, findUnstorableText } from '../../text/json.ts';
import { compile, type MessageFor } from '../../validation/validator.ts';
import type { Format } from '../../schemas/formats.ts';

/* How pages read what was sent and asked for. */

/** Placeholder for the CSRF token in the forms of a page. `withTokens` replaces it. */
export const tokenMark = randomUUID();

export type Fields = Record<string, string | string[] | undefined>;

const maxFields = 1_000;

/**
 * Parses the body of a form.
 * @throws DomainError `payload_too_large` if it has too many fields
 */
export function readForm(body: string): Fields {
  if (body.split('&', maxFields + 1).length > maxFields)
    throw new DomainError('payload_too_large', `The form has more than ${maxFields.toLocaleString('en')} fields`);
  return parse(body, '&', '=', { maxKeys: 0 });
}

// The salt makes each token unique: the token of a form also says whether the form was sent before.
const tokens = new Tokens({ saltLength: 22 });

export const tokenField = 'form_token';

/**
 * Replaces the placeholders of a page with CSRF tokens. They are valid only with the user's session. Before the login,
 * they are valid only with a cookie that this function sets.
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

/**
 * Runs the action of a form in a transaction. If the form was sent before, does nothing and returns undefined.
 * @throws DomainError `conflict` if it was sent before with other values
 */
export const once = <T>(request: FastifyRequest, act: (sql: Transaction) => Promise<T>): Promise<T | undefined> =>
  request.db.transaction(async (sql) => {
    const earlier = await markSent(sql, request.caller.customerId, sentForm(request));
    if (earlier === 'other') throw conflict(otherSent);
    return earlier ? undefined : act(sql);
  });

const otherSent = 'This form was sent before, with other values. Send it again if you want these too';

type Query<Connection, Rest extends unknown[], T> = (sql: Connection, customerId: string, ...rest: Rest) => Promise<T>;

type Run<Connection> = <T>(work: (sql: Connection) => Promise<T>) => Promise<T>;

const forCustomer =
  <Connection>(runOf: (db: Database) => Run<Connection>) =>
  <Rest extends unknown[], T>({ db, caller }: FastifyRequest, query: Query<Connection, Rest, T>, ...rest: Rest) =>
    runOf(db)((sql) => query(sql, caller.customerId, ...rest));

/** Runs a query for the customer of a request, by a method of the database, or by the database as a whole. */
export const lookUp = forCustomer<Sql>((db) => db.lookup);
export const search = forCustomer<Sql>((db) => db.search);
export const write = forCustomer<Transaction>((db) => db.transaction);
export const ask = forCustomer<Database>((db) => (work) => work(db));

/** Returns whether this form was processed before: with the same values, with other values, or not (undefined). */
export const sentEarlier = (request: FastifyRequest): Promise<'same' | 'other' | undefined> =>
  request.db.lookup((sql) => findSent(sql, request.caller.customerId, sentForm(request)));

const sentForm = (request: FastifyRequest) => ({ token: tokenOf(request.body), fields: fieldsOf(request) });

const tokenOf = (fields: unknown): string => text((fields ?? {}) as Fields, tokenField);

export const priceField = 'price';

/** Returns who pays for the action of a form. The action may cost at most the price that the page has shown. */
export const payerOf = (request: FastifyRequest): Spender => ({
  ...spenderOf(request.caller),
  maxCredits: Number(/^\d{1,15}$/.exec(text(fieldsOf(request), priceField))?.[0] ?? 0),
});

/** Returns what a job of this type would cost the user, and the available credits. */
export const priceFor = (request: FastifyRequest, type: JobType, body: object) =>
  estimateJob(type, request, spenderOf(request.caller), body);

/** Starts a job of this type. Returns undefined if the form was sent before, and starts none then. */
export async function startOnce(request: FastifyRequest, type: JobType, body: object, payer = payerOf(request)) {
  const plan = await prepareJob(type, request, body);
  return once(request, async (sql) => startJob(sql, payer, await plan(sql, payer)));
}

export const fieldsOf = ({ body }: FastifyRequest): Fields => (body ?? {}) as Fields;

export const text = (fields: Fields, name: string): string => [fields[name] ?? []].flat()[0] ?? '';

/** Returns the text of a field with LF line breaks. Browsers send CR LF. */
export const linesIn = (fields: Fields, name: string): string => text(fields, name).replaceAll('\r\n', '\n');

/** Returns a stored text with LF line breaks. `linesIn` returns the same if the user did not change the text. */
export const asSentBack = (stored: string): string => stored.replaceAll(/\r\n?/g, '\n');

/**
 * Returns the stored text that equals `given` apart from line breaks. Without one, returns `given` with LF line breaks.
 */
export const unchanged = (given: string, stored: readonly string[]): string => {
  const sent = asSentBack(given);
  return stored.find((one) => asSentBack(one) === sent) ?? sent;
};

/**
 * Returns the values of all form fields with the same name.
 * @param most maximum number of values
 * @throws DomainError `validation_failed` if there are more
 */
export function values(fields: Fields, name: string, most: number): string[] {
  const given = [fields[name] ?? []].flat();
  if (given.length > most) throw invalid(`at most ${most.toLocaleString('en')} of these can be sent at once`);
  return given;
}

/** Returns the ids in all form fields with the same name, each once. Ignores values that are not ids. */
export const idsIn = (fields: Fields, name: string, most: number): string[] => [
  ...new Set(values(fields, name, most).flatMap((id) => canonicalId(id) ?? [])),
];

/** Converts the text of a field to an integer. Returns other text unchanged, and the validation rejects it. */
export const integer = (fields: Fields, name: string): number =>
  /^\d{1,10}$/.test(text(fields, name)) ? Number(text(fields, name)) : (text(fields, name) as never);

/** Returns the name of a custom field in forms. Encodes the key, because browsers change line breaks in names. */
export const customName = (key: string): string => `custom.${encodeURIComponent(key)}`;

export const keyOf = (name: string): string => decodeURIComponent(name.slice('custom.'.length));

/**
 * Returns the id in a request's path.
 * @param noun kind of record, for the error message
 * @throws DomainError `not_found` if the id is not a UUID
 */
export const idOf = ({ params }: FastifyRequest, noun: string): string =>
  required(canonicalId((params as { id: string }).id), noun);

/** Returns the texts of several fields, without white space around them. */
export const textsIn = <Name extends string>(fields: Fields, ...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, text(fields, name).trim()])) as Record<Name, string>;

/** @throws DomainError `not_found` if there is no such record */
export function required<Row>(row: Row | undefined, noun: string): Row {
  if (row === undefined) throw notFound(noun);
  return row;
}

export const filledIn = (fields: Fields, ...names: readonly string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(textsIn(fields, ...names)).filter(([, given]) => given !== ''));

export function oneOf<Row extends { id: string }>(request: FastifyRequest, noun: string, all: readonly Row[]): Row {
  const id = idOf(request, noun);
  const one = all.find((row) => row.id === id);
  return required(one, noun);
}

export function placeIn(request: FastifyRequest): { cursor?: string } {
  const cursor = queryText(request, 'cursor').trim();
  return cursor === '' ? {} : { cursor };
}

/** Returns the position in the history before which a page begins, if its address has one. */
export function positionIn(request: FastifyRequest): number | undefined {
  const cursor = queryText(request, 'cursor');
  return /^\d{1,15}$/.test(cursor) ? Number(cursor) : undefined;
}

/** Reads rows of controls with these names, such as of a table in a form. Removes white space around the texts. */
export function rowsIn<Name extends string>(fields: Fields, names: readonly Name[], most: number, prefix = '') {
  const columns = names.map((name) => values(fields, `${prefix}${name}`, most));
  return Array.from(
    { length: Math.max(...columns.map(({ length }) => length)) },
    (_, i) => Object.fromEntries(names.map((name, n) => [name, (columns[n]![i] ?? '').trim()])) as Record<Name, string>,
  );
}

export const isAdmin = (request: FastifyRequest): boolean => sessionOf(request).role === 'admin';

export const queryOf = ({ query }: FastifyRequest): Fields => (query ?? {}) as Fields;

export const queryText = (request: FastifyRequest, name: string): string => text(queryOf(request), name);

/** Returns the fields of a sent form. For a request that sends no form, returns the parameters of its address. */
export const givenIn = (request: FastifyRequest): Fields =>
  request.method === 'POST' ? fieldsOf(request) : queryOf(request);

export const pageNumberOf = (request: FastifyRequest): number => pageNumberIn(queryOf(request));

export const sentText = (request: FastifyRequest, name: string): string => text(fieldsOf(request), name);

/**
 * Returns the page number in the parameters of an address, by default 1.
 * @throws DomainError `validation_failed` if it is not from 1 to a million
 */
export function pageNumberIn(fields: Fields): number {
  const page = Number(text(fields, 'page') || '1');
  if (!Number.isInteger(page) || page < 1 || page > 1_000_000) throw invalid('there is no such page');
  return page;
}

/* What is wrong with a form, in words for the person who sent it. */

/** Error messages by field name. A message with an empty name is about the whole form. */
export type Faults = Record<string, string>;

export interface Refused {
  faults: Faults;
  status: number;
  /** A question above the form, such as whether to create a likely duplicate. A second button says yes to it. */
  doubt?: Html;
}

export const notSent: Refused = { faults: {}, status: 200 };

/**
 * Checks that a record has not changed since the form was opened. Compares the etag in the form's `versionField`.
 * @throws DomainError `precondition_failed`
 */
export function requireCurrent(request: FastifyRequest, stored: object): void {
  if (sentText(request, 'etag') !== etagOf(stored)) throw preconditionFailed();
}

/** Returns the refusal of a form. @param path of the field, after a slash. Empty: the whole form */
export const invalid = (message: string, path = ''): DomainError => validationFailed([{ path, message }]);

export const conflictText =
  'Somebody changed this meanwhile, and nothing of yours is done yet. Look at it, and press the button again if you still want it.';

/**
 * Validates a form's values with the schema of the corresponding API request.
 * @param others faults that the caller has found. They stand for those of the schema below their paths
 * @throws DomainError `validation_failed`
 */
export function requireValid(schema: object, value: unknown, others: readonly Fault[] = []): void {
  const isTold = ({ path }: Fault): boolean => others.some((other) => path.startsWith(`${other.path}/`));
  const further = compile(schema).faultsOf(value, formMessage);
  const faults = [...others, ...findUnstorableText(value), ...further.filter((fault) => !isTold(fault))];
  if (faults.length > 0) throw validationFailed(faults);
}

/** Returns the first fault of each control. Of rows that one control has, returns what is wrong with each. */
export function byField(faults: readonly Fault[]): Faults {
  const texts: Record<string, string[]> = {};
  for (const { path, message } of faults) (texts[controlAt(path)] ??= []).push(sentence(message));
  return Object.fromEntries(
    Object.entries(texts).map(([name, all]) => [name, rowControls.has(name) ? [...new Set(all)].join(' ') : all[0]!]),
  );
}

const rowControls: ReadonlySet<string> = new Set(['products', 'phone_numbers']);

function controlAt(path: string): string {
  const [name = '', key] = tokensOf(path);
  if (name === 'rules' && key !== undefined) return `rules-${key}`;
  if (name === 'stages') return tokensOf(path).join('-');
  return name === 'custom_fields' && key !== undefined ? customName(key) : name;
}

/** Converts an error that the form's values caused to messages for the form. Throws every other error again. */
export function refusalOf(thrown: unknown): Refused {
  const error = fromDatabase(thrown) ?? thrown;
  if (error instanceof SpendCapExceeded) return { faults: { '': dearerText }, status: statuses[error.code] };
  if (!(error instanceof DomainError)) throw error;
  const { code } = error;
  if (code === 'precondition_failed') return { faults: { '': conflictText }, status: statuses[code] };
  if (code !== 'validation_failed' && code !== 'conflict' && code !== 'not_found') throw error;
  const faults = error.faults.length > 0 ? byField(error.faults) : { '': sentence(error.message) };
  return { faults, status: statuses[code] };
}

/** Returns a handler of errors that gives `instead` for errors with this code. Throws every other error again. */
export const passing =
  <T>(code: ErrorCode, instead: T) =>
  (error: unknown): T => {
    if (error instanceof DomainError && error.code === code) return instead;
    throw error;
  };

const dearerText = 'By now it would cost more, so nothing is started yet. This is the price now.';

export const sentence = (message: string): string =>
  `${message.charAt(0).toUpperCase()}${message.slice(1)}${message.endsWith('.') ? '' : '.'}`;

const messageByKeyword: Readonly<Record<string, string | ((limit: number) => string)>> = {
  required: 'is missing',
  dependentRequired: 'is missing',
  minLength: (limit) => (limit === 1 ? 'must not be empty' : `must have at least ${counted(limit, 'character')}`),
  maxLength: (limit) => `can have at most ${counted(limit, 'character')}`,
  minItems: (limit) => (limit === 1 ? 'choose at least one' : `choose at least ${limit}`),
  maxItems: (limit) => `can have at most ${counted(limit, 'value')}`,
  maxProperties: (limit) => `can have at most ${counted(limit, 'field')}`,
  minimum: (limit) => `must be at least ${limit}`,
  maximum: (limit) => `must be at most ${limit}`,
  enum: 'choose one of the choices',
};

export const formMessage: MessageFor = ({ keyword, params, message = 'is not valid' }) => {
  if (keyword === 'type') return types[String(params['type']).split(',')[0]!] ?? 'is not valid';
  if (keyword === 'format') return formats[params['format'] as Format];
  const found = messageByKeyword[keyword] ?? message;
  return typeof found === 'string' ? found : found(Number(params['limit']));
};

const types: Readonly<Record<string, string>> = {
  number: 'is not a clear number: write it as 1249 or 1249.50',
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
