import type { FastifyRequest } from 'fastify';
import type { GivenFilters } from '../../schemas/filters.ts';
import { findUnstorableText } from '../../text/unstorable.ts';
import { validationFailed } from '../../errors.ts';
import { text, type Fields } from '../base/forms.ts';
import type { FilterControl, RecordKind, RecordRequest } from './record-kind.ts';

/** What a list of records shows. All of it stands in the address, so that a view can be sent to a colleague. */
export interface View {
  /** By name of the control; without empty ones. */
  values: Readonly<Record<string, string>>;
  /** A field, with `-` before it for descending; an empty string for newest first. */
  sort: string;
  cursor: string;
  /** Number of the first row that is shown. */
  from: number;
}

type Controls = Pick<RecordKind<never>, 'controls' | 'sorts'>;

/**
 * Returns what an address asks for. Ignores parameters that this list does not have.
 * @throws DomainError `validation_failed` if a value cannot be stored, and so cannot be searched for
 */
export function viewOf({ controls, sorts }: Controls, fields: Fields): View {
  const values = Object.fromEntries(
    controls.map(({ name }) => [name, text(fields, name).trim()]).filter(([, value]) => value !== ''),
  ) as Record<string, string>;
  const faults = findUnstorableText(values);
  if (faults.length > 0) throw validationFailed(faults);
  const sort = sorts.find(([one]) => one === text(fields, 'sort'))?.[0] ?? '';
  const from = /^\d{1,9}$/.test(text(fields, 'from')) ? Math.max(1, Number(text(fields, 'from'))) : 1;
  return { values, sort, cursor: text(fields, 'cursor'), from };
}

export const viewOfRequest = (controls: Controls, { query }: FastifyRequest): View =>
  viewOf(controls, (query ?? {}) as Fields);

/** Returns a view's filters as the API takes them. */
export function filtersOf(controls: readonly FilterControl[], { values }: Pick<View, 'values'>): GivenFilters {
  const given = controls.filter(({ name }) => values[name] !== undefined);
  return Object.fromEntries(
    given.map(({ name, field, isPart }) => [field, isPart ? { contains: values[name] } : values[name]]),
  );
}

/** Returns the request of the API's list call that a view stands for. */
export function requestOf({ controls }: Controls, view: View, limit: number): RecordRequest {
  const { sort, cursor } = view;
  const order = sort.startsWith('-') ? { [sort.slice(1)]: 'DESC' } : { [sort]: 'ASC' };
  return {
    filters: filtersOf(controls, view),
    ...(sort === '' ? {} : { order_by: order }),
    paginate: { limit, ...(cursor === '' ? {} : { cursor }) },
  };
}

/** Returns the parameters of a view, without its place in the list. */
export function parametersOf({ values, sort }: Pick<View, 'values' | 'sort'>, more: Record<string, string> = {}) {
  return new URLSearchParams({ ...values, ...(sort === '' ? {} : { sort }), ...more });
}

/** Returns a path with the parameters of a view. */
export function addressOf(
  path: string,
  view: Pick<View, 'values' | 'sort'>,
  more: Record<string, string> = {},
): string {
  const parameters = parametersOf(view, more).toString();
  return parameters === '' ? path : `${path}?${parameters}`;
}
