import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Transaction } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import { discardCount, findDuplicates } from '../../queries/crm/duplicates.ts';
import { findCompanies } from '../../queries/crm/companies.ts';
import type { ComparedMerge } from '../../queries/crm/merges.ts';
import { mergeCompanies, mergeContacts } from '../../queries/crm/record-merges.ts';
import { mergedCompanyFields, mergedContactFields } from '../../schemas/clean-data.ts';
import type { DuplicateGroup, DuplicateKey } from '../../schemas/clean-data.ts';
import type { ContactDetail } from '../../schemas/contacts.ts';
import { etagOf, canonicalId } from '../../text/ids.ts';
import { forMembers, addPage, addAction, withUndo, type Answer } from '../base/layout.ts';
import { form, numberedPager, formFaults, select, tick, hidden, doneNotice, undoButton } from '../base/forms.ts';
import { search, write, fieldsOf, text, values, idsIn, queryOf, queryText, pageNumberOf } from '../base/requests.ts';
import type { Fields } from '../base/requests.ts';
import { notSent, requireCurrent, refusalOf } from '../base/refusals.ts';
import { when, notice, empty, table, buttons, html, type Html, type Column } from '../base/html.ts';
import { moment, count, counted, someNames } from '../base/values.ts';
import { companyKind, contactKind } from './kinds.ts';
import { readInOrder, type FormField, type RecordKind, type ShownRecord } from './record-kind.ts';
import { usersOf, formText } from './record-form.ts';
import { valueOf } from './records.ts';

const section = '/app/duplicates';

interface Search {
  words: string;
  kind: RecordKind;
  merge: (sql: Transaction, customerId: string, merge: ComparedMerge) => Promise<void>;
  /** Fields of which a merge keeps the value of one record. */
  fields: readonly string[];
}

const contacts = { kind: contactKind, merge: mergeContacts, fields: mergedContactFields };
const companies = { kind: companyKind, merge: mergeCompanies, fields: mergedCompanyFields };

const searches: Record<DuplicateKey, Search> = {
  work_email: { words: 'Contacts with the same work e-mail', ...contacts },
  profnet_url: { words: 'Contacts with the same profile', ...contacts },
  name_and_company: { words: 'Contacts with the same name and company', ...contacts },
  name: { words: 'Companies with the same name', ...companies },
  domain: { words: 'Companies with the same domain', ...companies },
  external_name: { words: 'Companies with the same name, apart from legal forms', ...companies },
};

const isKey = (by: string): by is DuplicateKey => Object.hasOwn(searches, by);

/** Records that are compared because somebody chose them in a list, and those that have something in common. */
const compared = {
  contacts: { words: 'Merge the chosen contacts', ...contacts },
  companies: { words: 'Merge the chosen companies', ...companies },
  ...searches,
} satisfies Record<string, Search>;

type ComparedBy = keyof typeof compared;

const comparedBy = (fields: Fields): ComparedBy => {
  const by = text(fields, 'by');
  return Object.hasOwn(compared, by) ? (by as ComparedBy) : 'work_email';
};

const keyOf = (fields: Fields): DuplicateKey => {
  const by = comparedBy(fields);
  return isKey(by) ? by : 'work_email';
};

/** Returns the path of the list from which the user came to compare records. */
const listOf = (by: ComparedBy): string => (isKey(by) ? `${section}?by=${by}` : compared[by].kind.path);

const pageSize = 25;

const maxCompared = 21;

export async function duplicates(app: FastifyInstance): Promise<void> {
  addPage(app, '/duplicates', forMembers, async (request) => {
    const [given, page] = [queryText(request, 'by'), pageNumberOf(request)];
    const [by, found] = isKey(given)
      ? [given, await findUnlessCounting(request, given, page)]
      : await findFirst(request);
    const groups = found ? await shownOf(request, searches[by], found.rows) : [];
    const equal = groups.filter(({ isEqual }) => isEqual);
    const button = html`<button class="secondary outline">Merge ${counted(equal.length, 'equal group')}</button>`;
    return {
      title: 'Duplicates',
      isLive: found === undefined,
      body: html`!${doneText(request)} !${choice(by)} !${found ? groupsOf(request, by, found, groups) : counting}`,
      actions: when(equal.length > 1, mergeForm(by, equal, button)),
    };
  });

  addPage(app, '/duplicates/compare', forMembers, async (request) => compare(request, queryOf(request)));

  addAction(app, '/duplicates/merge', forMembers, async (request) => {
    const fields = fieldsOf(request);
    const [by, ids] = [comparedBy(fields), idsIn(fields, 'id', maxCompared)];
    const keep = canonicalId(text(fields, 'keep')) ?? '';
    const { kind, merge, fields: names } = compared[by];
    if (!ids.includes(keep) || ids.length < 2) return compare(request, fields);
    const rows = await readInOrder(request, kind, ids);
    const controls = [
      ...names.map((name) => [name, `field_${name}`] as const),
      ...openKeys(rows).map((key, i) => [`custom_fields.${key}`, ownName(i)] as const),
    ];
    const chosen = controls.flatMap(([name, control]) => {
      const id = canonicalId(text(fields, control));
      return id !== undefined && ids.includes(id) ? [[name, id] as const] : [];
    });
    const given = { id: keep, merge_ids: ids.filter((id) => id !== keep), fields: Object.fromEntries(chosen) };
    try {
      requireCurrent(request, rows);
      await write(request, merge, { ...given, compared: rows });
    } catch (error) {
      return compare(request, fields, refusalOf(error));
    }
    return withUndo(request, isKey(by) ? `${listOf(by)}&done=1` : `${kind.path}/${keep}?done=merged`);
  });

  addAction(app, '/duplicates/count', forMembers, async (request) => {
    const by = keyOf(fieldsOf(request));
    await write(request, discardCount, by);
    return listOf(by);
  });

  addAction(app, '/duplicates/equal', forMembers, async (request) => {
    const fields = fieldsOf(request);
    const [by, groups] = [keyOf(fields), values(fields, 'group', pageSize)];
    const end = performance.now() + maxMergeMs;
    let [merged, tried] = [0, 0];
    for (const group of groups) {
      const ids = group.split('.').flatMap((id) => canonicalId(id) ?? []);
      merged += await mergeIfEqual(request, searches[by], ids.slice(0, maxCompared));
      tried += 1;
      if (performance.now() > end) break;
    }
    const path = `${listOf(by)}&done=${merged}${tried < groups.length ? '&more=1' : ''}`;
    return merged > 0 ? withUndo(request, path) : path;
  });
}

/** The kinds of duplicates that one statement finds at once, in the order in which the page tries them. */
const firstKeys = ['work_email', 'profnet_url', 'name', 'domain'] as const;

/** Milliseconds after which no further key is tried. With a million records, each can take seconds. */
const maxSearchMs = 1_000;

const maxMergeMs = 6_000;

type Found = Pick<Awaited<ReturnType<typeof findDuplicates>>, 'rows' | 'groups' | 'asOf'>;

/** Returns the first key that has duplicates, and their first page. */
async function findFirst(request: FastifyRequest): Promise<[DuplicateKey, Found | undefined]> {
  const end = performance.now() + maxSearchMs;
  for (const by of firstKeys) {
    const found = await findUnlessCounting(request, by, 1);
    if (found?.groups) return [by, found];
    if (performance.now() > end) break;
  }
  return [firstKeys[0], { rows: [], groups: 0, asOf: undefined }];
}

/** Returns a page of duplicates, or undefined while they are still being counted. */
async function findUnlessCounting(
  { db, caller }: FastifyRequest,
  by: DuplicateKey,
  page: number,
): Promise<Found | undefined> {
  try {
    return await findDuplicates(db, caller.customerId, { by, paginate: { page, limit: pageSize } });
  } catch (error) {
    if (error instanceof DomainError && error.code === 'unavailable') return undefined;
    throw error;
  }
}

interface ShownGroup extends DuplicateGroup {
  names: Html;
  isEqual: boolean;
}

/** Number of records of a group whose names are shown. */
const named = 3;

/**
 * Returns duplicates with their names. Leaves out groups that were merged after the last count: a count is up to some
 * minutes old.
 */
async function shownOf(
  request: FastifyRequest,
  { kind }: Search,
  groups: readonly DuplicateGroup[],
): Promise<ShownGroup[]> {
  const some = groups.map((group) => ({ ...group, ids: group.ids.slice(0, maxCompared) }));
  const rows = await readInOrder(
    request,
    kind,
    some.flatMap(({ ids }) => ids),
  );
  const byId = new Map(rows.map((row) => [row.id, row]));
  const shown = some.map(async (group) => {
    const living = group.ids.flatMap((id) => byId.get(id) ?? []);
    const names = someNames(living.map(kind.nameOf), named, Math.max(living.length, group.count));
    return living.length < 2 ? [] : [{ ...group, names, isEqual: await areEqual(kind, living) }];
  });
  return (await Promise.all(shown)).flat();
}

const counting = html`<div data-live>
  !${notice('These duplicates are being counted. The page shows them in a moment.', 'busy')}
</div>`;

const choice = (by: DuplicateKey): Html =>
  html`<form method="get" action="${section}" class="filters">
    !${select(
      'name="by" aria-label="What is the same"',
      Object.entries(searches).map(([key, { words }]) => [key, words] as const),
      by,
    )}
    <button class="secondary outline">Show</button>
  </form>`;

const mergeForm = (by: DuplicateKey, groups: readonly ShownGroup[], button: Html): Html =>
  form(
    `${section}/equal`,
    html`!${hidden({ by, group: groups.map(({ ids }) => ids.join('.')) })} !${button}`,
    'data-once',
  );

function groupsOf(request: FastifyRequest, by: DuplicateKey, found: Found, groups: readonly ShownGroup[]): Html {
  const { rows, groups: all, asOf } = found;
  const left = all - (rows.length - groups.length);
  const common: Column<ShownGroup> = ['In common', ({ value }) => html`${value}`];
  const acts = (group: ShownGroup): Html => {
    const merge = html`<button class="secondary outline" aria-label="Merge ${group.value}">Merge</button>`;
    return html`<a href="${compareAddress(by, group.ids)}" aria-label="Compare ${group.value}">Compare</a>
      !${when(group.isEqual, mergeForm(by, [group], merge))}`;
  };
  const columns: readonly Column<ShownGroup>[] = [
    ...(asOf ? [] : [common]),
    ['Records', ({ names }) => names],
    ['How many', (group) => count(group.count), 'number'],
    ['What to do', (group) => html`<div class="row small">!${acts(group)}</div>`],
  ];
  const none = asOf
    ? empty('None left in this count', 'Count again to see what has changed since, or look for something else.', 'done')
    : empty('No duplicates', 'No two records have this in common. Look for something else above.', 'done');
  const advice = 'Records whose values do not differ can be merged at once: nothing is lost.';
  const heading = html`<p><strong>${counted(left, 'group')}</strong>. <span class="quiet">${advice}</span></p>`;
  return html`!${when(left > 0, heading)} !${asOf ? countedAt(by, asOf) : ''}
  !${table(searches[by].words, columns, groups, none)}
  !${numberedPager(request, all > pageNumberOf(request) * pageSize)}`;
}

const countedAt = (by: DuplicateKey, asOf: string): Html =>
  form(
    `${section}/count`,
    html`!${hidden({ by })}
      <p class="quiet">Counted !${moment(asOf)}. <button class="link">Count again</button></p>`,
  );

const compareAddress = (by: DuplicateKey, ids: readonly string[]): string => {
  const compared = ids.slice(0, maxCompared).map((id) => `&id=${id}`);
  return `${section}/compare?by=${by}${compared.join('')}`;
};

function doneText(request: FastifyRequest): Html {
  const done = queryText(request, 'done');
  if (!/^\d{1,6}$/.test(done)) return doneNotice(request);
  const more = queryText(request, 'more') === '' ? '' : ' More are left: merge them too.';
  const nothing = 'Nothing was merged: something has just changed, or too much would move. Compare the records.';
  return done === '0'
    ? notice(`${nothing}${more}`, 'warning')
    : notice(`${counted(Number(done), 'group is', 'groups are')} merged.${more}`, 'good', undoButton(request));
}

async function compare(request: FastifyRequest, fields: Fields, { faults, status } = notSent): Promise<Answer> {
  const by = comparedBy(fields);
  const { kind, words } = compared[by];
  const rows = await readInOrder(request, kind, idsIn(fields, 'id', maxCompared));
  if (rows.length < 2) return listOf(by);
  const body = html`!${formFaults(faults)} !${hidden({ by, etag: etagOf(rows), id: rows.map(({ id }) => id) })}
    <p>
      One stays and gets the lists and opportunities of the others, which are deleted. Other e-mails, phone numbers and
      your own fields of all are kept. Where records have different values, the chosen one stays and the others are
      deleted. You can undo the merge.
    </p>
    !${await comparison(request, kind, rows, fields)} !${buttons('Merge', listOf(by), 'Back')}`;
  return { title: words, status, body: form(`${section}/merge`, body, 'data-once') };
}

/** Merges records if none of their values differ. Returns the number of merges: 0 or 1. */
async function mergeIfEqual(request: FastifyRequest, { kind, merge }: Search, ids: readonly string[]): Promise<number> {
  const rows = await readInOrder(request, kind, ids);
  const [kept, ...others] = rows;
  if (!kept || !(await areEqual(kind, rows))) return 0;
  try {
    await write(request, merge, { id: kept.id, merge_ids: others.map(({ id }) => id), compared: rows });
    return 1;
  } catch (error) {
    if (error instanceof DomainError && (error.code === 'conflict' || error.code === 'not_found')) return 0;
    throw error;
  }
}

/** Returns true if records have the same values in all fields, apart from empty ones and those that a merge unites. */
async function areEqual(kind: RecordKind, rows: readonly ShownRecord[]): Promise<boolean> {
  if (rows.length < 2 || openKeys(rows).length > 0) return false;
  for (const one of kind.fields) {
    if (united.has(one.name)) continue;
    if (differ(await comparedTexts(kind, one, rows))) return false;
  }
  return true;
}

/** Returns a text for each record's value of a field. Companies of one name have different texts. */
const comparedTexts = ({ links }: RecordKind, one: FormField, rows: readonly ShownRecord[]): Promise<string[]> =>
  Promise.all(rows.map(async (row) => links(row)[one.name] ?? formText(one, row)));

const companyOf = (row: ShownRecord): string => (row as Partial<ContactDetail>).company?.id ?? '';

/** Returns the domain and the place of each company for which one of the contacts works, by its id. */
async function describeCompanies(request: FastifyRequest, rows: readonly ShownRecord[]): Promise<Map<string, string>> {
  const found = await search(request, findCompanies, rows.map(companyOf).filter(Boolean));
  return new Map(found.map((one) => [one.id, [one.domain, one.location_locality].filter(Boolean).join(', ')]));
}

/** Fields of which a merge keeps the values of all records. */
const united = new Set(['other_emails', 'phone_numbers']);

type Line = readonly [name: string, cells: readonly Html[]];

async function comparison(
  request: FastifyRequest,
  kind: RecordKind,
  rows: readonly ShownRecord[],
  fields: Fields,
): Promise<Html> {
  const users = await usersOf(request);
  const kept = text(fields, 'keep') || rows[0]!.id;
  const lines: Line[] = [
    ['Stays', rows.map((row) => radio('keep', row.id, kept, html`${kind.nameOf(row)}`))],
    ['Created', rows.map(({ created_at }) => moment(created_at))],
  ];
  for (const one of kind.fields) {
    const texts = await comparedTexts(kind, one, rows);
    if (texts.every((given) => given === '')) continue;
    const isOpen = !united.has(one.name) && differ(texts);
    const companies = isOpen && one.control === 'company' ? await describeCompanies(request, rows) : undefined;
    const cells = rows.map(async (row) => {
      const value = valueOf(kind, one, await formText(one, row), row, users);
      return companies ? html`!${value} <span class="quiet">${companies.get(companyOf(row)) ?? ''}</span>` : value;
    });
    const shown = await Promise.all(cells);
    const options = { name: `field_${one.name}`, texts, shown };
    lines.push([one.label, isOpen ? valueChoices(options, rows, fields) : shown]);
  }
  const open = openKeys(rows);
  for (const [i, key] of open.entries()) {
    const texts = rows.map((row) => ownText(row, key));
    const shown = texts.map((one) => (one === '' ? nothing : html`${one}`));
    lines.push([key, valueChoices({ name: ownName(i), texts, shown }, rows, fields)]);
  }
  const columns: readonly Column<Line>[] = [
    ['Field', ([name]) => html`${name}`, 'row'],
    ...rows.map((_, i): Column<Line> => [i === 0 ? 'The oldest' : `Number ${i + 1}`, ([, cells]) => cells[i]!]),
  ];
  return table('Records side by side', columns, lines);
}

const nothing = html`<span class="quiet">–</span>`;

const differ = (texts: readonly string[]): boolean => new Set(texts.filter((given) => given !== '')).size > 1;

interface Options {
  name: string;
  texts: readonly string[];
  shown: readonly Html[];
}

/** Returns a radio button for each record's value of a field. By default, the first value is chosen. */
function valueChoices({ name, texts, shown }: Options, rows: readonly ShownRecord[], fields: Fields): Html[] {
  const first = rows[texts.findIndex((given) => given !== '')]!.id;
  const chosen = text(fields, name) || first;
  return rows.map(({ id }, i) => (texts[i] === '' ? shown[i]! : radio(name, id, chosen, shown[i]!)));
}

const ownText = ({ custom_fields: given }: ShownRecord, key: string): string =>
  Object.hasOwn(given, key) ? String(given[key]) : '';

/**
 * Returns the name of a custom field's control. It does not contain the key, because browsers change line breaks in
 * names.
 */
const ownName = (index: number): string => `own_${index}`;

const openKeys = (rows: readonly ShownRecord[]): string[] =>
  [...new Set(rows.flatMap(({ custom_fields }) => Object.keys(custom_fields)))].filter((key) =>
    differ(rows.map((row) => ownText(row, key))),
  );

const radio = (name: string, value: string, chosen: string, label: Html): Html =>
  tick('radio', [name, value], label, value === chosen);
