import type { InsideAnswer } from '../plugins/inside-calls.ts';

/** An error that the assistant reads: it says what to change. */
export class AgentError extends Error {}

interface ErrorBody {
  code?: string;
  message: string;
  errors?: { path: string; message: string }[];
  required?: number;
  available?: number;
  pool?: string;
}

/** Returns the error of a route in words, with what to do about it. */
export function errorText({ body, headers }: Pick<InsideAnswer, 'body' | 'headers'>): string {
  const { code = '', message, errors = [], required, available, pool } = body as ErrorBody;
  const faults = errors.slice(0, 10).map((fault) => `${argumentOf(fault.path)}: ${fault.message}`);
  const advice = (advices[code] ?? '').replace('{seconds}', String(headers['retry-after'] ?? 1));
  const numbers = required === undefined ? '' : `Required: ${required}, available: ${available}, pool: ${pool}.`;
  const said = code === 'validation_failed' && errors.length > 0 ? [] : [`${message}.`]; // it repeats the faults
  return [...said, ...faults, numbers, advice].filter((line) => line !== '').join('\n');
}

/** Returns the argument of a tool that the pointer into a route's body names. */
const argumentOf = (path: string): string => path.replace(/^\/paginate(?=\/)/, '') || 'the arguments';

const advices: Record<string, string> = {
  not_found: 'Search for the record again: it may be deleted, or the id is of another kind of record.',
  insufficient_credits: 'Nothing was spent. Ask for less, or ask a person to add credits.',
  spend_cap_exceeded:
    'Nothing was spent. This is the limit of the key or of max_credits, not of the account: ask for less, or ask a person to raise it.',
  idempotency_mismatch: 'This request_id was used with other arguments. Choose a new one for a new intent.',
  rate_limited: 'Wait {seconds} seconds, then try again.',
  unavailable: 'The service is busy. Wait {seconds} seconds, then try again with the same request_id.',
};
