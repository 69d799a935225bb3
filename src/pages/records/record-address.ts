import type { FastifyRequest } from 'fastify';
import type { GivenFilters } from '../../schemas/filters.ts';
import { findUnstorableText } from '../../text/unstorable.ts';
import { validationFailed } from '../../errors.ts';
import { compile } from '../../validation/validator.ts';
import { readDay, startOf } from '../base/readers.ts';
import { text, type Fields } from '../base/forms.ts';
import type { FilterControl, RecordKind, RecordRequest } from './record-kind.ts';

/** What a list of records shows. All of it stands in the address, so that a view can be sent to a colleague. */
export interface View {
  values: Readonly<Record<string, string>>;
  /** A field, with `-` before it for descending; an empty string for newest first. */
  sort: string;
  /** Names of the chosen columns; empty for those that are shown by default. */
  columns: readonly string[];
  cursor: string;
  /** Cursors of the pages before, which lead back. That of the first page is empty. */
  trail: readonly string[];
  from: number;
}

type Controls = Pick<RecordKind<never>, 'controls' | 'columns' | 'schemas'>;

/** Most pages that a list leads back by. */
const longestTrail = 20;

/** Returns the orders that a list has: a field, with `-` before it for descending. */
export const sortsOf = ({ columns }: Pick<Controls, 'columns'>): string[] =>
  columns.flatMap(({ sort }) => (sort === undefined ? [] : [sort, `-${sort}`]));

/**
 * Returns what an address asks for. Ignores parameters that this list does not have.
 * @throws DomainError `validation_failed` if a value cannot be stored or is not valid, and so cannot be searched for
 */
export function viewOf({ controls, columns, schemas }: Controls, fields: Fields): View {
  const values = Object.fromEntries(
    controls.map(({ name }) => [name, text(fields, name).trim()]).filter(([, value]) => value !== ''),
  ) as Record<string, string>;
  const invalid = compile(schemas.filters).faultsOf(filtersOf(controls, { values }));
  const faults = [...findUnstorableText(values), ...invalid.map((one) => ({ ...one, path: `/filters${one.path}` }))];
  if (faults.length > 0) throw validationFailed(faults);
  const sort = sortsOf({ columns }).find((one) => one === text(fields, 'sort')) ?? '';
  const named = [fields['columns'] ?? []].flat().flatMap((names) => names.split('.'));
  const chosen = columns.filter(({ name }, i) => i === 0 || named.includes(name));
  // Only the list knows which fields are declared. Other pages pass their columns on.
  const others = named.filter((name) => /^custom~.{1,300}$/.test(name) && !columns.some((one) => one.name === name));
  const isDefault =
    others.length === 0 && columns.every((column, i) => i === 0 || chosen.includes(column) === !column.isOptional);
  const trail = text(fields, 'trail');
  const from = /^\d{1,9}$/.test(text(fields, 'from')) ? Math.max(1, Number(text(fields, 'from'))) : 1;
  return {
    values,
    sort,
    columns: named.length === 0 || isDefault ? [] : [...chosen.map(({ name }) => name), ...others],
    cursor: text(fields, 'cursor'),
    trail: trail === '' ? [] : trail.split('~').slice(-longestTrail),
    from,
  };
}

export const viewOfRequest = (controls: Controls, { query }: FastifyRequest): View =>
  viewOf(controls, (query ?? {}) as Fields);

export function filtersOf(controls: readonly FilterControl[], { values }: Pick<View, 'values'>): GivenFilters {
  const given = controls.filter(({ name }) => values[name] !== undefined);
  return Object.fromEntries(
    given.map(({ name, field, isPart, control }) => {
      const value = values[name]!;
      if (control === 'since') return [field, { gte: startOf(readDay(value) ?? value) }];
      return [field, isPart ? { contains: value } : value];
    }),
  );
}

export function requestOf({ controls }: Controls, view: View, limit: number): RecordRequest {
  const { sort, cursor } = view;
  const order = sort.startsWith('-') ? { [sort.slice(1)]: 'DESC' } : { [sort]: 'ASC' };
  return {
    filters: filtersOf(controls, view),
    ...(sort === '' ? {} : { order_by: order }),
    paginate: { limit, ...(cursor === '' ? {} : { cursor }) },
  };
}

/** What of a view is the same on all of its pages. */
type Selection = Pick<View, 'values' | 'sort' | 'columns'>;

export function parametersOf({ values, sort, columns }: Selection, more: Record<string, string> = {}) {
  const chosen = columns.length === 0 ? {} : { columns: columns.join('.') };
  return new URLSearchParams({ ...values, ...(sort === '' ? {} : { sort }), ...chosen, ...more });
}

export function addressOf(path: string, view: Selection, more: Record<string, string> = {}): string {
  const parameters = parametersOf(view, more).toString();
  return parameters === '' ? path : `${path}?${parameters}`;
}

/** Returns the parameters of the place of a view in its list. */
export const placeOf = ({ cursor, trail, from }: Pick<View, 'cursor' | 'trail' | 'from'>): Record<string, string> =>
  cursor === ''
    ? {}
    : { cursor, from: String(from), ...(trail.length === 0 ? {} : { trail: trail.slice(-longestTrail).join('~') }) };
