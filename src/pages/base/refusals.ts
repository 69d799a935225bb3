import type { FastifyRequest } from 'fastify';
import { DomainError, fromDatabase, preconditionFailed, SpendCapExceeded, validationFailed } from '../../errors.ts';
import type { Fault } from '../../errors.ts';
import { statuses } from '../../plugins/error-handler.ts';
import { etagOf } from '../../text/ids.ts';
import { tokensOf, findUnstorableText } from '../../text/json.ts';
import type { Validator, MessageFor } from '../../validation/validator.ts';
import { customName, sentText } from './requests.ts';
import type { Html } from './html.ts';
import { counted } from './values.ts';
import type { Format } from '../../schemas/formats.ts';

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

const conflictText =
  'Somebody changed this meanwhile, and nothing of yours is done yet. Look at it, and press the button again if you still want it.';

/**
 * Validates a form's values with the schema of the corresponding API request.
 * @param others faults that the caller has found
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

const dearerText = 'By now it would cost more, so nothing is started yet. This is the price now.';

export const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;

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
