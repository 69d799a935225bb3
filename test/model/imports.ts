import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { bindIds, expectStatus, remember, type Caller } from './caller.ts';
import { companyItem, companyMode } from './companies.ts';
import { contactItem, contactMode } from './contacts.ts';
import { Difference } from './client.ts';
import { isInvalid, type Contact, type Json, type List, type Mode, type Outcome } from './model.ts';
import { someOf } from './random-values.ts';

/** How long an import may take (milliseconds). */
const longest = 600_000;

interface Import<T> {
  object: 'contacts' | 'companies';
  mode: Mode;
  items: Json[];
  lists: List[];
  apply: (item: Json) => Outcome<T>;
}

/** Sends a file, waits for the end of its import and applies the records to the model, in the order of the file. */
async function runImport<T extends { id: string | undefined; history: string[] }>(
  caller: Caller,
  { object, mode, items, lists, apply }: Import<T>,
): Promise<T[]> {
  const { client } = caller;
  const body = {
    object,
    mode: mode.operation,
    ...(mode.match === null ? {} : { match: mode.match }),
    format: 'ndjson',
    invalid_values: 'fail',
    ...(lists.length > 0 ? { list_ids: lists.map((list) => caller.idOf(list)) } : {}),
    name: caller.mark(),
  };
  const begun = await client.send('POST', '/imports', body);
  const request = `import ${JSON.stringify(body)} of ${items.length}`;
  expectStatus(begun, 201, request);
  const { id } = begun.body.data;
  const file = items.map((item) => `${JSON.stringify(item)}\n`).join('');
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
      `${request}: ${JSON.stringify(shown)} instead of ${JSON.stringify(meant)}, error ${JSON.stringify(ended['error'])}\n${(await client.text(`/imports/${id}/errors`)).slice(0, 2_000)}`,
    );
  for (const [i, outcome] of outcomes.entries())
    if (outcome.status !== 'failed')
      remember([outcome.record], `${id} ${request}: record ${i}: ${JSON.stringify(items[i])}`);
  return outcomes.flatMap((outcome) => (outcome.status === 'failed' ? [] : [outcome.record]));
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
  const lists = someOf(random, [...model.lists], 3);
  const company = { name: `works ${random.below(5)} of ${caller.tag}` };
  // What files do with an invalid value is tested elsewhere (test/files).
  const items = Array.from({ length: size }, () => {
    const item = contactItem(caller, mode);
    return together ? { ...item, company } : item;
  }).filter((item) => !isInvalid(item));
  if (items.length === 0) return;
  const apply = (item: Json) => model.writeContact(mode, item);
  const written = await runImport<Contact>(caller, { object: 'contacts', mode, items, lists, apply });
  model.addToLists(new Set(written), lists);
  await bindIds(caller);
}

export async function importCompanies(caller: Caller): Promise<void> {
  const mode = companyMode(caller);
  const items = Array.from({ length: 1 + caller.random.below(8) }, () => {
    return { ...companyItem(caller, mode), location_address_line_2: caller.mark() };
  });
  const apply = (item: Json) => caller.model.writeCompany(mode, item);
  await runImport(caller, { object: 'companies', mode, items, lists: [], apply });
  await bindIds(caller);
}

/** Exports the caller's contacts, and sends the file again as an import: it must change nothing. */
export async function sendExportAgain(caller: Caller): Promise<void> {
  const { client, model, random } = caller;
  const format = random.pick(['csv', 'ndjson'] as const);
  const exported = await client.text('/contacts/export', {
    filters: { last_name: { starts_with: `${caller.tag} ` } },
    format,
  });
  const settings = { object: 'contacts', mode: 'update', match: 'id', format, name: caller.mark() };
  const begun = await client.send('POST', '/imports', settings);
  expectStatus(begun, 201, 'import of an export');
  const { id } = begun.body.data;
  expectStatus(await client.send('PUT', `/imports/${id}/file`, exported), 200, 'import of an export');
  const ended = await waitForEnd(caller, id);
  const { size } = model.contacts;
  if (ended['status'] === 'COMPLETED' && ended['total'] === size && ended['unchanged'] === size) return;
  const failed = await client.text(`/imports/${id}/errors`);
  throw new Difference(
    `An export of ${size} contacts was imported again: ${JSON.stringify(ended)}\n${failed.slice(0, 2_000)}`,
  );
}
