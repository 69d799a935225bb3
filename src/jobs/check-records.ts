import type { TSchema } from '@sinclair/typebox';
import { type Fault, DomainError, validationFailed } from '../errors.ts';
import { noDomain, noEmail, quoted } from '../files/read-value.ts';
import { customFieldsLimits } from '../schemas/wire.ts';
import { lengthOf } from '../text/fold.ts';
import { tokensOf } from '../text/json.ts';
import { invalidValuesOf } from '../files/encodings.ts';
import { isDecisive, type FileRecord, removeValue } from '../files/read-records.ts';
import type { ImportSettings } from '../queries/jobs/imports.ts';
import { declaredFaults, type Declared } from '../queries/records/custom-fields.ts';
import { lacksRequired, type Outcome } from '../queries/records/batches.ts';
import { batchItem, type BatchKind } from '../schemas/batches.ts';
import { importedKinds, type ImportChange } from '../schemas/imports.ts';
import { checkItems, type ItemRules } from '../validation/validator.ts';
import { rolledBack, type Queryable, type Transaction } from '../database/db.ts';
import { findCompanies } from '../queries/crm/companies.ts';
import type { NewEvent } from '../queries/records/journal.ts';
import { shown } from '../queries/history/history.ts';
import { withoutDeferredWrites, type DeferredWrites } from '../queries/records/deferred-writes.ts';

/**
 * Returns true for a message of the schema validator, such as `must be string`. Other messages are already written for
 * people.
 */
const isOfValidator = (message: string): boolean => /^(?:must|has a name that must)\b|^is required$/.test(message);

function plainFault(schema: TSchema, item: object, fault: Fault): Fault {
  if (!isOfValidator(fault.message)) return fault;
  const tokens = tokensOf(fault.path);
  return { ...fault, message: messageFor(schemaAt(schema, tokens), valueAt(item, tokens)) };
}

export const withValue = (item: object, { path, message }: Fault): Fault => ({
  path,
  message: `${valueInWords(valueAt(item, tokensOf(path)))} ${message}`,
});

const valueAt = (item: object, tokens: readonly string[]): unknown =>
  tokens.reduce<unknown>(
    (value, token) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, token)
        ? (value as Record<string, unknown>)[token]
        : undefined,
    item,
  );

const schemaAt = (schema: TSchema, tokens: readonly string[]): TSchema =>
  tokens.reduce<TSchema>((whole, token) => {
    const forms = (whole['anyOf'] ?? [whole]) as TSchema[];
    const at = forms.find(({ items, properties }) => items ?? Object.hasOwn(properties ?? {}, token)) ?? whole;
    const properties = (at['properties'] ?? {}) as Record<string, TSchema>;
    const next = Object.hasOwn(properties, token) ? properties[token] : (at['items'] ?? at['additionalProperties']);
    return typeof next === 'object' && next !== null ? (next as TSchema) : ({} as TSchema);
  }, schema);

const typesOf = (schema: TSchema): readonly string[] => [schema['type'] ?? []].flat() as string[];

function messageFor(schema: TSchema, value: unknown): string {
  const types = typesOf(schema);
  if (value === undefined) return 'is missing';
  if (value === null) return 'cannot be emptied';
  if (types.includes('array')) return arrayMessage(schema, value);
  if (types.includes('object')) return objectMessage(schema, value);
  const isNumber = types.includes('integer') || types.includes('number');
  if (isNumber && !types.includes('string')) return numberMessage(schema, value);
  return typeof value === 'string' ? textMessage(schema, value) : `${valueInWords(value)} is not a text`;
}

function arrayMessage({ maxItems }: TSchema, value: unknown): string {
  if (!Array.isArray(value)) return `${valueInWords(value)} is not a list`;
  return value.length > maxItems ? `has more than ${maxItems} values` : 'is not allowed here';
}

function objectMessage({ not }: TSchema, value: unknown): string {
  if (typeof value !== 'object' || Array.isArray(value)) return `${valueInWords(value)} is not a JSON object`;
  // The rule of a company's members is written for people.
  if (not !== undefined) return (not as TSchema).description!;
  const { keys, bytes } = customFieldsLimits;
  if (Object.keys(value!).length > keys) return `has more than ${keys} keys`;
  if (JSON.stringify(value).length > bytes) return `is longer than ${bytes / 1024} KiB of JSON`;
  return 'has a name that is empty or longer than 64 characters';
}

function numberMessage({ type, minimum, maximum, 'x-max-decimals': decimals }: TSchema, value: unknown): string {
  const what = type === 'integer' ? 'a whole number' : 'a number';
  if (typeof value !== 'number' || minimum === undefined || maximum === undefined)
    return `${valueInWords(value)} is not ${what}`;
  const most = decimals === undefined ? '' : ` with at most ${decimals} decimals`;
  return `${valueInWords(value)} is not ${what} from ${minimum} to ${maximum}${most}`;
}

function textMessage(schema: TSchema, value: string): string {
  const { format, maxLength } = schema as { format?: string; maxLength?: number };
  const most = format === 'name' ? 255 : format === 'currency' ? undefined : maxLength;
  if (value.trim() === '') return 'is empty';
  if (most !== undefined && lengthOf(value.trim()) > most) return `${quoted(value)} is longer than ${most} characters`;
  if (format === 'email') return noEmail(value);
  if (format === 'domain') return noDomain(value);
  const allowed = schema['enum'] ? `one of ${(schema['enum'] as string[]).join(', ')}` : 'allowed here';
  return `${quoted(value)} is not ${formatNames[format ?? ''] ?? allowed}`;
}

const formatNames: Record<string, string> = {
  country: 'a country code (such as DE)',
  currency: 'a currency code (such as EUR)',
  uuid: 'an id (a UUID)',
  'date-time': 'a time (such as 2024-12-31T12:00:00Z)',
};

const valueInWords = (value: unknown): string =>
  typeof value === 'string' ? quoted(value) : JSON.stringify(value).slice(0, 100);

// `checkItems` reports at most 10 faults per record, and 1,000 in all.
const checkedAtOnce = 100;

/**
 * Validates the request bodies of records. If the import skips invalid values, removes them and adds warnings to the
 * records.
 * @returns for each record the valid body or the validation error
 */
export async function checkRecords(
  settings: ImportSettings,
  records: readonly FileRecord[],
): Promise<(object | DomainError)[]> {
  const checked: (object | DomainError)[] = [];
  for (let from = 0; from < records.length; from += checkedAtOnce)
    checked.push(...(await checkSome(settings, records.slice(from, from + checkedAtOnce))));
  return checked;
}

const maxAttempts = 4;

async function checkSome(settings: ImportSettings, records: readonly FileRecord[]): Promise<(object | DomainError)[]> {
  const { object, mode, match } = settings;
  const kind = importedKinds[object];
  const rules: ItemRules = { kind, operation: mode, match: match ?? 'id', mayBeUnstorable: false };
  const skips = invalidValuesOf(settings) === 'skip';
  const checked = records.map(({ item }) => item);
  // Without leaving values out, a stored record decides: what it has already stays, whatever was declared since.
  const isJudgedLater = !skips && mode !== 'create';
  const declared = new Map(isJudgedLater ? [] : settings.declared?.map((field) => [field.key, field]));
  let open = [...checked.keys()].filter((i) => !(checked[i] instanceof DomainError));
  for (let attempt = 1; open.length > 0; attempt += 1) {
    const valid = await checkItems(
      rules,
      open.map((i) => checked[i]),
    );
    const results = valid.map((item) => checkDeclared(declared, item));
    const wrong = open.filter((_, at) => results[at] instanceof DomainError);
    const errors = results.filter((result) => result instanceof DomainError);
    open = wrong.filter((i, at) => {
      const item = checked[i]!;
      const schema = batchItem(kind, mode, rules.match);
      const faults = errors[at]!.faults.map((fault) => plainFault(schema, item, fault));
      const isLeftOut = skips && attempt < maxAttempts && leaveOut(item, faults, rules);
      if (isLeftOut) records[i]!.warnings.push(...faults);
      else checked[i] = faults.length > 0 ? validationFailed(faults) : errors[at]!;
      return isLeftOut;
    });
  }
  if (mode === 'create') return checked.map((item) => checkNew(kind, item));
  return checked.map((item, i) =>
    mode === 'upsert' ? checkUnmatched(kind, rules.match, item, records[i]!.item) : item,
  );
}

function checkDeclared(declared: Declared, item: object | DomainError): object | DomainError {
  if (item instanceof DomainError) return item;
  const faults = declaredFaults(declared, (item as { custom_fields?: Record<string, string> }).custom_fields ?? {});
  return faults.length > 0 ? validationFailed(faults.map((fault) => withValue(item, fault))) : item;
}

/**
 * Returns an error for a new record that lacks a required field. For an upsert, the writer checks this once it knows
 * whether the record is new.
 */
const checkNew = (kind: BatchKind, item: object | DomainError): object | DomainError =>
  item instanceof DomainError ? item : (lacksRequired(kind, item as Record<string, unknown>) ?? item);

/** Adds to the error of a record without its match value what the record lacks to be created without it. */
function checkUnmatched(kind: BatchKind, match: string, checked: object | DomainError, item: object) {
  if (!(checked instanceof DomainError)) return checked;
  const { faults } = checked;
  const isUnmatched = faults.some(({ path, message }) => path === `/${match}` && message === 'is missing');
  const lacks = isUnmatched && lacksRequired(kind, item as Record<string, unknown>);
  return lacks ? validationFailed([...faults, ...lacks.faults]) : checked;
}

/**
 * Removes invalid values from a record's body.
 * @returns false, with nothing removed, if the whole record must fail: an invalid value is missing, identifies the
 * record, or decides what other values mean
 */
function leaveOut(item: object, faults: readonly Fault[], { operation, match }: ItemRules): boolean {
  const places = faults.map(({ path }) => tokensOf(path));
  const isNeeded = ([field]: string[]): boolean =>
    field === undefined || !Object.hasOwn(item, field) || (operation !== 'create' && field === match);
  if (faults.length === 0 || places.some(isNeeded) || faults.some((one) => isDecisive(one, item))) return false;
  for (const place of places) removeValue(item as Record<string, unknown>, place);
  return true;
}

export const maxChanges = 20;

/**
 * Writes records as an import does, rolls the writes back, and collects what they would have changed. Used for a
 * preview or dry run.
 */
export class Trial {
  readonly #fields = new Map<string, ImportChange['fields']>();
  readonly #limit: number;

  constructor(limit = maxChanges) {
    this.#limit = limit;
  }

  run<T>(
    sql: Transaction,
    customerId: string,
    write: (attempt: Transaction, deferred: DeferredWrites) => Promise<T>,
  ): Promise<T> {
    return rolledBack(
      (work) => sql.savepoint((attempt) => work(attempt as Transaction)),
      (attempt) =>
        withoutDeferredWrites(async (deferred) => {
          const result = await write(attempt, deferred);
          await this.#keep(attempt, customerId, deferred.events);
          return result;
        }),
    );
  }

  async #keep(sql: Queryable, customerId: string, events: readonly NewEvent[]): Promise<void> {
    const updates = events.flatMap(({ data, before, after }) =>
      before && after ? [{ ...(data as { id: string }), old: shown({ ...before }), now: shown({ ...after }) }] : [],
    );
    const first = updates.filter(({ id }) => !this.#fields.has(id)).slice(0, this.#limit - this.#fields.size);
    if (first.length === 0) return;
    const companies = first.flatMap(({ old, now }) => [old['company'], now['company']]).filter((id) => id !== null);
    const names = await namesOf(sql, customerId, companies.filter((id) => id !== undefined) as string[]);
    const told = (name: string, value: unknown = null) => (name === 'company' ? (names.get(value) ?? null) : value);
    for (const { id, old, now } of first)
      this.#fields.set(
        id,
        Object.fromEntries(Object.keys(now).map((name) => [name, [told(name, old[name]), told(name, now[name])]])),
      );
  }

  /**
   * Returns the changes that records would make, at most one per stored record.
   * @param lines line of each record, in the order of `outcomes`
   */
  changesOf(lines: readonly number[], outcomes: readonly Outcome[]): ImportChange[] {
    const changes = new Map<string, ImportChange>();
    for (const [i, outcome] of outcomes.entries()) {
      const fields = outcome.status === 'updated' ? this.#fields.get(outcome.id) : undefined;
      if (outcome.status === 'updated' && fields && !changes.has(outcome.id))
        changes.set(outcome.id, { line: lines[i]!, id: outcome.id, fields });
    }
    return [...changes.values()];
  }
}

async function namesOf(sql: Queryable, customerId: string, ids: string[]): Promise<Map<unknown, string>> {
  const companies = ids.length === 0 ? [] : await findCompanies(sql, customerId, [...new Set(ids)]);
  return new Map(companies.map(({ id, company_name }) => [id, company_name]));
}
