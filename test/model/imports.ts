import { parse } from 'csv-parse/sync';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { bindIds, expectStatus, remember, type Caller } from './caller.ts';
import { companyItem, companyMode } from './companies.ts';
import { contactItem, contactMode } from './contacts.ts';
import { Difference } from './client.ts';
import { isInvalid, type Contact, type Json, type List, type Mode, type Outcome } from './model.ts';
import { someOf } from './random-values.ts';

/** How long an import may take (milliseconds). */
const longest = 120_000;

interface Import<T> {
  object: 'contacts' | 'companies';
  mode: Mode;
  format: 'csv' | 'ndjson';
  items: Json[];
  lists: List[];
  apply: (item: Json) => Outcome<T>;
}

/** Sends a file, waits for the end of its import and applies the records to the model, in the order of the file. */
async function runImport<T extends { id: string | undefined; history: string[] }>(
  caller: Caller,
  { object, mode, format, items, lists, apply }: Import<T>,
): Promise<T[]> {
  const { client } = caller;
  const body = {
    object,
    mode: mode.operation,
    ...(mode.match === null ? {} : { match: mode.match }),
    format,
    ...(lists.length > 0 ? { list_ids: lists.map((list) => caller.idOf(list)) } : {}),
    name: caller.mark(),
  };
  const begun = await client.create('/imports', body);
  const request = `import ${JSON.stringify(body)} of ${items.length}`;
  expectStatus(begun, 201, request);
  const { id } = begun.body.data;
  const file = format === 'csv' ? csvOf(items) : items.map((item) => `${JSON.stringify(item)}\n`).join('');
  expectStatus(await client.send('PUT', `/imports/${id}/file`, file), 200, request);
  const ended = await waitForEnd(caller, id);
  const outcomes = items.map((item) => apply(item));
  const counted = Map.groupBy(outcomes, ({ status }) => status);
  const count = (status: Outcome<T>['status']) => counted.get(status)?.length ?? 0;
  const meant = {
    status: 'COMPLETED',
    total: items.length,
    created: count('created'),
    updated: count('updated'),
    unchanged: count('unchanged'),
    failed: count('failed'),
  };
  const shown = Object.fromEntries(Object.keys(meant).map((name) => [name, ended[name]]));
  if (!isDeepStrictEqual(shown, meant))
    throw new Difference(
      `${request}: ${JSON.stringify(shown)} instead of ${JSON.stringify(meant)}, error ${JSON.stringify(ended['error'])}\n${await explain(caller, id, items, outcomes)}`,
    );
  for (const [i, outcome] of outcomes.entries())
    if (outcome.status !== 'failed')
      remember([outcome.record], `${id} ${request}: record ${i}: ${JSON.stringify(items[i])}`);
  return outcomes.flatMap((outcome) => (outcome.status === 'failed' ? [] : [outcome.record]));
}

/** Returns the records that failed only in the service or only in the model, and those with the same external id. */
async function explain({ client }: Caller, id: string, items: Json[], outcomes: Outcome<unknown>[]): Promise<string> {
  const rows = parse(await client.text(`/imports/${id}/errors`), { columns: true }) as Record<string, string>[];
  const isCsv = rows.length > 0 && !('_record' in rows[0]!);
  const errors = new Map(rows.map((row) => [Number(row['_line']) - (isCsv ? 2 : 1), row['_error']]));
  const told = (item: Json, i: number): string => {
    const outcome = outcomes[i]!;
    return `record ${i}: ${errors.get(i) ?? 'written'}; in the model ${outcome.status === 'failed' ? outcome.code : outcome.status}: ${JSON.stringify(item)}`;
  };
  const wrong = items.findIndex((_, i) => errors.has(i) !== (outcomes[i]!.status === 'failed'));
  if (wrong === -1) return 'The same records failed.';
  const others = items.flatMap((item, i) =>
    item['external_id'] !== undefined && item['external_id'] === items[wrong]!['external_id'] ? [told(item, i)] : [],
  );
  return [told(items[wrong]!, wrong), ...others].join('\n  ');
}

async function waitForEnd({ client }: Caller, id: string): Promise<Json> {
  const end = performance.now() + longest;
  for (;;) {
    const { body } = await client.send('GET', `/imports/${id}`);
    if (body.finished_at !== null) return body;
    if (performance.now() > end) throw new Difference(`An import did not end: ${JSON.stringify(body)}`);
    await sleep(50);
  }
}

/** Imports contacts. With `company`, all of them have this company, so that it becomes large. */
export async function importContacts(caller: Caller, size: number, together = false): Promise<void> {
  const { model, random } = caller;
  const mode: Mode = together ? { operation: 'create', match: null } : contactMode(caller);
  const format = caller.chance(60) ? 'csv' : 'ndjson';
  const lists = someOf(random, [...model.lists], 3);
  const company = { name: `works ${random.below(5)} of ${caller.tag}` };
  // What files do with an invalid value is tested elsewhere (test/files).
  const items = Array.from({ length: size }, () => {
    const item = contactItem(caller, mode);
    const whole = together ? { ...item, company } : item;
    return format === 'csv' ? forCsv(caller, whole) : whole;
  }).filter((item) => !isInvalid(item));
  if (items.length === 0) return;
  const apply = (item: Json) => model.writeContact(mode, item);
  const written = await runImport<Contact>(caller, { object: 'contacts', mode, format, items, lists, apply });
  model.addToLists(new Set(written), lists);
  await bindIds(caller);
}

export async function importCompanies(caller: Caller): Promise<void> {
  const mode = companyMode(caller);
  const format = caller.chance(60) ? 'csv' : 'ndjson';
  const items = Array.from({ length: 1 + caller.random.below(8) }, () => {
    const item = { ...companyItem(caller, mode), location_address_line_2: caller.mark() };
    return format === 'csv' ? forCsv(caller, item) : item;
  });
  const apply = (item: Json) => caller.model.writeCompany(mode, item);
  await runImport(caller, { object: 'companies', mode, format, items, lists: [], apply });
  await bindIds(caller);
}

const nested = new Set(['company', 'custom_fields']);

/** Returns an item without what a CSV file cannot say: empty texts and lists. Phone numbers may be missing there. */
function forCsv(caller: Caller, { list_ids: _lists, ...item }: Json): Json {
  const isAbsent = ([name, value]: [string, unknown]): boolean => {
    if (name === 'phone_numbers') return isEmpty(value) && caller.chance(70);
    return isEmpty(value);
  };
  const given = Object.entries(item).filter((entry) => !isAbsent(entry));
  return Object.fromEntries(given.map(([name, value]) => [name, typeof value === 'string' ? value.trim() : value]));
}

const isEmpty = (value: unknown): boolean => {
  if (typeof value === 'string') return value.trim() === '';
  return value !== null && typeof value === 'object' && Object.keys(value).length === 0;
};

/** Writes items as a CSV file. The first records may lack what later ones have. */
function csvOf(items: readonly Json[]): string {
  const rows = items.map(cellsOf);
  const headers = [...new Set(rows.flatMap((row) => [...row.keys()]))];
  const lines = rows.map((row) => headers.map((header) => row.get(header) ?? '').join(','));
  return [headers.map(quoted).join(','), ...lines].join('\r\n');
}

const nullCell = String.raw`\N`;

function cellsOf(item: Json): Map<string, string> {
  const cells = new Map<string, string>();
  for (const [name, value] of Object.entries(item)) {
    if (name === 'company' && value === null) cells.set('company.name', nullCell);
    else if (nested.has(name))
      for (const [part, one] of Object.entries(value as Json)) cells.set(`${name}.${part}`, cellOf(one));
    else if (name === 'phone_numbers') cells.set(name, quoted(JSON.stringify(value)));
    else cells.set(name, Array.isArray(value) ? value.join(';') : cellOf(value));
  }
  return cells;
}

const cellOf = (value: unknown): string => {
  if (value === null) return nullCell;
  return typeof value === 'string' ? quoted(value) : JSON.stringify(value);
};

const quoted = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
