import { form, numberedPager, tick, hidden, undoButton, doneNotice } from '../base/forms.ts';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Transaction } from '../../database/db.ts';
import { countAgain, findDuplicates } from '../../queries/crm/duplicates.ts';
import { findCompanies } from '../../queries/crm/companies.ts';
import type { ComparedMerge } from '../../queries/crm/merges.ts';
import { mergeCompanies, mergeContacts } from '../../queries/crm/record-merges.ts';
import type { DuplicateGroup, DuplicateKey } from '../../schemas/clean-data.ts';
import type { ContactDetail } from '../../schemas/contacts.ts';
import { etagOf, canonicalId } from '../../text/ids.ts';
import { forMembers, addPage, addAction, withUndo, formRoutes, backPath, type FormPage } from '../base/layout.ts';
import { search, write, fieldsOf, text, values, idsIn, queryText, pageNumberOf } from '../base/requests.ts';
import { ask, givenIn, notSent, requireCurrent, passing, type Fields } from '../base/requests.ts';
import { badge, when, notice, empty, table, buttons, html, link, pathWith, moment, count } from '../base/html.ts';
import { counted, folded, type Html, type Column } from '../base/html.ts';
import { customValue, fieldWord } from '../base/words.ts';
import { aboutOf, companyKind, contactKind, readInOrder } from './kinds.ts';
import type { FormField, RecordKind, ShownRecord } from './kinds.ts';
import { declaredFor, usersOf, formText, ownGroup } from './editor.ts';
import { valueOf } from './records.ts';

const section = '/app/duplicates';

interface Compared {
  kind: RecordKind;
  merge: (sql: Transaction, customerId: string, merge: ComparedMerge) => Promise<void>;
}

/** `same`: what the records have in common. */
type Search = Compared & { same: string };

const contacts: Compared = { kind: contactKind, merge: mergeContacts };
const companies: Compared = { kind: companyKind, merge: mergeCompanies };

const searches: Record<DuplicateKey, Search> = {
  work_email: { same: 'work e-mail', ...contacts },
  profnet_url: { same: 'profile', ...contacts },
  name_and_company: { same: 'name and company', ...contacts },
  name: { same: 'name', ...companies },
  domain: { same: 'domain', ...companies },
  external_name: { same: 'name, apart from legal forms', ...companies },
};

/** Records that are compared because somebody chose them in a list, and those that have something in common. */
const compared = { contacts, companies, ...searches } satisfies Record<string, Compared>;

type ComparedBy = keyof typeof compared;

const isKey = (by: string): by is DuplicateKey => Object.hasOwn(searches, by);

const keys = Object.keys(searches).filter(isKey);

const titleOf = (by: DuplicateKey): string => `${searches[by].kind.title} with the same ${searches[by].same}`;

const keyIn = (fields: Fields): DuplicateKey | undefined => keys.find((key) => key === text(fields, 'by'));

const comparedBy = (fields: Fields): ComparedBy =>
  (Object.keys(compared) as ComparedBy[]).find((by) => by === text(fields, 'by')) ?? 'work_email';

const listPathOf = (by: ComparedBy): string => (isKey(by) ? `${section}?by=${by}` : compared[by].kind.path);

const pageSize = 25;
const maxCompared = 21;

export async function duplicates(app: FastifyInstance): Promise<void> {
  addPage(app, '/duplicates', forMembers, async (request) => {
    const given = keyIn(givenIn(request));
    const all = await findAll(request, given);
    // After an import of companies, those come first.
    const of = queryText(request, 'of');
    const isFirst = (key: DuplicateKey): boolean => searches[key].kind.object === of;
    const ordered = [...keys.filter(isFirst), ...keys.filter((key) => !isFirst(key))];
    const isUnknown = (key: DuplicateKey): boolean => all.has(key) && isCounting(all.get(key));
    const by = given ?? ordered.find((key) => all.get(key)?.groups) ?? ordered.find(isUnknown) ?? ordered[0]!;
    const found = all.get(by);
    const groups = found ? await shownOf(request, searches[by], found.rows) : [];
    const equal = groups.filter(({ isEqual }) => isEqual);
    const button = html`<button class="secondary outline">Merge ${counted(equal.length, 'equal group')}</button>`;
    const counting = notice('Same names are being counted. The page shows them in a moment.', 'busy');
    const isLive = [...all.values()].some(isCounting);
    const asOf = [found, ...all.values()].find((one) => one?.asOf)?.asOf;
    // A count that is about to be made again, and has found none, tells nothing.
    const shown = found && (groups.length > 0 || !found.isDue) ? groupsOf(request, by, found, groups) : '';
    return {
      title: 'Duplicates',
      isLive,
      done: doneText(request),
      body: html`<div !${when(isLive, 'data-live')}>!${overviewOf(by, all)} !${when(isLive, counting)}</div>
        !${asOf && !isLive ? countedAt(given, asOf) : ''} !${shown}`,
      actions: when(equal.length > 1, mergeForm(by, equal, button)),
    };
  });

  formRoutes(app, '/duplicates/compare', forMembers, {
    sentTo: '/duplicates/merge',
    show: compare,
    act: async (request) => {
      const fields = fieldsOf(request);
      const [by, ids] = [comparedBy(fields), idsIn(fields, 'id', maxCompared)];
      const { merge, kind } = compared[by];
      const chosenIn = (control: string) => ids.find((id) => id === canonicalId(text(fields, control)));
      const keep = chosenIn('keep');
      if (keep === undefined || ids.length < 2) return notSent;
      const rows = await readInOrder(request, kind, ids);
      const chosen = comparedFields(kind, rows).flatMap(({ name }) => {
        const id = chosenIn(controlOf(name));
        return id === undefined ? [] : [[name, id] as const];
      });
      requireCurrent(request, rows);
      const given = { id: keep, merge_ids: ids.filter((id) => id !== keep), compared: rows };
      await write(request, merge, { ...given, fields: Object.fromEntries(chosen) });
      await write(request, countAgain);
      return withUndo(request, isKey(by) ? `${listPathOf(by)}&done=1` : `${kind.path}/${keep}?done=merged`);
    },
  });

  addAction(app, '/duplicates/count', forMembers, async (request) => {
    await write(request, countAgain);
    const by = keyIn(fieldsOf(request));
    return by ? listPathOf(by) : section;
  });

  addAction(app, '/duplicates/equal', forMembers, async (request) => {
    const fields = fieldsOf(request);
    const [by, groups] = [keyIn(fields) ?? 'work_email', values(fields, 'group', pageSize)];
    const end = performance.now() + maxMergeMs;
    let [merged, tried] = [0, 0];
    // A change that merged one record twice could not be undone.
    const taken = new Set<string>();
    for (const group of groups) {
      const ids = new Set(group.split('.').flatMap((id) => canonicalId(id) ?? [])).difference(taken);
      ids.forEach((id) => taken.add(id));
      merged += await mergeIfEqual(request, searches[by], [...ids].slice(0, maxCompared));
      tried += 1;
      if (performance.now() > end) break;
    }
    if (merged > 0) await write(request, countAgain);
    const path = `${listPathOf(by)}&done=${merged}${tried < groups.length ? '&more=1' : ''}`;
    return merged > 0 ? withUndo(request, path) : path;
  });
}

/** The kinds of duplicates that workers count. Their last count is there at once. */
const countedKeys: ReadonlySet<string> = new Set(['name_and_company', 'external_name']);

/** Milliseconds after which no further key is tried. With a million records, each can take seconds. */
const maxSearchMs = 1_000;

const maxMergeMs = 6_000;

type Found = Pick<Awaited<ReturnType<typeof findDuplicates>>, 'rows' | 'groups' | 'asOf' | 'isDue'>;

/** Pages of duplicates by what the records have in common. Undefined while these are being counted. */
type AllFound = ReadonlyMap<DuplicateKey, Found | undefined>;

/** Returns a page of the given kind of duplicates, and the first of each other kind. Lacks those that take too long. */
async function findAll(request: FastifyRequest, given: DuplicateKey | undefined): Promise<AllFound> {
  const end = performance.now() + maxSearchMs;
  const all = new Map<DuplicateKey, Found | undefined>();
  for (const key of new Set([...keys.filter((one) => one === given), ...keys]))
    if (performance.now() < end || countedKeys.has(key))
      all.set(key, await findUnlessCounting(request, key, key === given ? pageNumberOf(request) : 1));
  return all;
}

/** Returns a page of duplicates, or undefined while they are being counted for the first time. */
const findUnlessCounting = (request: FastifyRequest, by: DuplicateKey, page: number): Promise<Found | undefined> =>
  ask(request, findDuplicates, { by, paginate: { page, limit: pageSize } }).catch(passing('unavailable', undefined));

const isCounting = (found: Found | undefined): boolean => found?.isDue ?? true;

function overviewOf(by: DuplicateKey, all: AllFound): Html {
  const choice = (key: DuplicateKey): Html => {
    const [{ same }, found] = [searches[key], all.get(key)];
    const number = found && (found.groups > 0 ? badge(count(found.groups), 'warning') : '<span class="quiet">0</span>');
    const shown = isCounting(found) ? badge('being counted', 'busy') : number;
    const name = key === by ? html`<strong aria-current="page">${same}</strong>` : link(same, listPathOf(key));
    return html`<li>!${name} !${all.has(key) ? shown : ''}</li>`;
  };
  return html`!${[contactKind.title, companyKind.title].map((title) => {
    const some = keys.filter((key) => searches[key].kind.title === title);
    return html`<p class="quiet">${title} with the same</p>
      <ul class="chips">
        !${some.map(choice)}
      </ul>`;
  })}`;
}

interface ShownGroup extends DuplicateGroup {
  names: Html;
  isEqual: boolean;
}

const maxNamesShown = 3;

/**
 * Returns duplicates with their names. Leaves out groups that were merged after the last count: a count is up to some
 * minutes old.
 */
async function shownOf(request: FastifyRequest, { kind }: Search, groups: readonly DuplicateGroup[]) {
  const some = groups.map((group) => ({ ...group, ids: group.ids.slice(0, maxCompared) }));
  const ids = some.flatMap((group) => group.ids);
  const byId = new Map((await readInOrder(request, kind, ids)).map((row) => [row.id, row]));
  return some.flatMap((group): ShownGroup[] => {
    const living = group.ids.flatMap((id) => byId.get(id) ?? []);
    const lines = living.slice(0, maxNamesShown).map((row) => {
      const about = html`<span class="quiet">${aboutOf(kind, row)}</span>`;
      const name = link(kind.nameOf(row), `${kind.path}/${row.id}`);
      return html`<span class="line"><strong>!${name}</strong> !${about}</span>`;
    });
    const left = Math.max(living.length, group.count) - lines.length;
    const names = html`!${lines} !${when(left > 0, html`<span class="quiet">and ${count(left)} more</span>`)}`;
    return living.length < 2 ? [] : [{ ...group, names, isEqual: areEqual(kind, living) }];
  });
}

function mergeForm(by: DuplicateKey, groups: readonly ShownGroup[], button: Html): Html {
  const group = groups.map(({ ids }) => ids.join('.'));
  return form(`${section}/equal`, html`!${hidden({ by, group })} !${button}`, 'data-once');
}

function groupsOf(request: FastifyRequest, by: DuplicateKey, found: Found, groups: readonly ShownGroup[]): Html {
  const { rows, groups: all, asOf } = found;
  const left = all - (rows.length - groups.length);
  const acts = (group: ShownGroup): Html => {
    const merge = html`<button class="secondary outline" aria-label="Merge ${group.value}">Merge</button>`;
    const path = pathWith(`${section}/compare`, { by, id: group.ids });
    return html`<a href="${path}" aria-label="Compare ${group.value}">Compare</a>
      !${when(group.isEqual, mergeForm(by, [group], merge))}`;
  };
  const columns: readonly Column<ShownGroup>[] = [
    ...(asOf ? [] : [['In common', ({ value }) => html`${value}`] as Column<ShownGroup>]),
    ['Records', ({ names }) => names],
    ['How many', (group) => count(group.count), 'number'],
    ['What to do', (group) => html`<div class="row">!${acts(group)}</div>`],
  ];
  const none = empty(`No ${titleOf(by).toLowerCase()}`, 'Look for something else above.', 'twins');
  const advice = groups.some(({ isEqual }) => isEqual)
    ? 'Records whose values do not differ can be merged at once: nothing is lost.'
    : 'Compare the records of a group to merge them.';
  const heading = html`<p><strong>${counted(left, 'group')}</strong>. <span class="quiet">${advice}</span></p>`;
  return html`!${when(left > 0, heading)} !${table(titleOf(by), columns, groups, none)}
  !${numberedPager(request, all > pageNumberOf(request) * pageSize, isKey(queryText(request, 'by')) ? section : listPathOf(by))}`;
}

const countedAt = (by: string | undefined, asOf: string): Html =>
  form(
    `${section}/count`,
    html`!${hidden({ by: by ?? '' })}
      <p class="quiet">Same names were counted !${moment(asOf)}. <button class="link">Count again</button></p>`,
  );

function doneText(request: FastifyRequest): Html {
  const done = queryText(request, 'done');
  if (!/^\d{1,6}$/.test(done)) return doneNotice(request);
  const more = queryText(request, 'more') === '' ? '' : ' More are left: merge them too.';
  const nothing = 'Nothing was merged: something has just changed, or too much would move. Compare the records.';
  return done === '0'
    ? notice(`${nothing}${more}`, 'warning')
    : notice(`${done === '1' ? 'They' : `${done} groups`} are merged.${more}`, 'good', undoButton(request));
}

async function compare(request: FastifyRequest): Promise<FormPage | string> {
  const fields = givenIn(request);
  const by = comparedBy(fields);
  const { kind } = compared[by];
  const rows = await readInOrder(request, kind, idsIn(fields, 'id', maxCompared));
  const back = backPath(request, listPathOf(by));
  if (rows.length < 2) return back;
  const body = html`!${hidden({ by, etag: etagOf(rows), id: rows.map(({ id }) => id) })}
    <p>
      One stays and gets the ${kind.noun === 'contact' ? 'lists, e-mails, phone numbers' : 'contacts'}, notes, tasks,
      opportunities and own fields of the others, which are deleted. Where values differ, choose one. You can undo the
      merge.
    </p>
    !${await comparison(request, kind, rows)} !${buttons('Merge', back, 'Back')}`;
  const action = pathWith(`${section}/merge`, { back: queryText(request, 'back') });
  const title = `Merge ${counted(rows.length, kind.noun, kind.title.toLowerCase())}`;
  return { title, action, body, attributes: 'data-once' };
}

/** Merges records if none of their values differ. Returns the number of merges: 0 or 1. */
async function mergeIfEqual(request: FastifyRequest, { kind, merge }: Search, ids: readonly string[]): Promise<number> {
  const rows = await readInOrder(request, kind, ids);
  const [kept, ...others] = rows;
  if (!kept || !areEqual(kind, rows)) return 0;
  const given = { id: kept.id, merge_ids: others.map(({ id }) => id), compared: rows };
  const merging = write(request, merge, given).then(() => 1);
  return merging.catch(passing('conflict', 0)).catch(passing('not_found', 0));
}

/** Returns true if records have the same values in all fields, apart from empty ones and those that a merge unites. */
const areEqual = (kind: RecordKind, rows: readonly ShownRecord[]): boolean =>
  rows.length > 1 && !comparedFields(kind, rows).some((one) => differ(comparedTexts(one, rows)));

/** Returns the fields of which a merge keeps the value of one record: those of all records, and the records' own. */
function comparedFields({ fields }: RecordKind, rows: readonly ShownRecord[]): FormField[] {
  const keys = new Set(rows.flatMap(({ custom_fields }) => Object.keys(custom_fields)));
  const own = [...keys].map((key) => ({ name: `custom_fields.${key}`, label: key, ...ownField }));
  return [...fields.filter(({ name }) => !unitedFields.has(name)), ...own];
}

const ownField = { control: 'text', group: ownGroup, hint: '' } as const;

/** Returns the value of a field as pages show it. If `users` is empty, an owner is shown as an id. */
function shownValue(one: FormField, row: ShownRecord, users: Parameters<typeof valueOf>[3] = []): Html {
  if (one.group === ownGroup) return customValue(new Map(Object.entries(row.custom_fields)).get(one.label) ?? '');
  const stored = formText(one, row);
  // Other pages leave out words beside the number.
  if (one.name === 'mobile_phone' && /[^\d\s()+./-]/.test(stored)) return html`${stored}`;
  return valueOf(one, stored, row, users);
}

/** Returns the name of the radio buttons of a field. Browsers would change line breaks in it. */
const controlOf = (name: string): string => `field_${encodeURIComponent(name)}`;

/** Returns a text for each record's value of a field. Companies of one name have different texts. */
const comparedTexts = (one: FormField, rows: readonly ShownRecord[]): string[] =>
  rows.map((row) => (one.control === 'company' ? companyOf(row) : shownValue(one, row)));

const companyOf = (row: ShownRecord): string => (row as Partial<ContactDetail>).company?.id ?? '';

async function describeCompanies(request: FastifyRequest, rows: readonly ShownRecord[]): Promise<Map<string, string>> {
  const found = await search(request, findCompanies, rows.map(companyOf).filter(Boolean));
  return new Map(found.map((one) => [one.id, aboutOf(companyKind, one)]));
}

const unitedFields = new Set(['other_emails', 'phone_numbers']);

type Line = readonly [name: string, cells: readonly Html[]];

async function comparison(request: FastifyRequest, kind: RecordKind, rows: readonly ShownRecord[]): Promise<Html> {
  const [fields, users, declared] = [givenIn(request), await usersOf(request), await declaredFor(request, kind)];
  // A radio button for each record's value. By default, the first value is chosen.
  const radios = (name: string, texts: readonly string[], shown: readonly Html[]): Html[] => {
    const chosen = text(fields, name) || rows[texts.findIndex((given) => given !== '')]!.id;
    const radio = (id: string, label: Html) => tick('radio', [name, id], label, id === chosen);
    return rows.map(({ id }, i) => (texts[i] === '' ? shown[i]! : radio(id, shown[i]!)));
  };
  const names = rows.map((row) => html`${kind.nameOf(row)}`);
  const ids = rows.map(({ id }) => id);
  const lines: Line[] = [
    ['Stays', radios('keep', ids, names)],
    ['Created', rows.map(({ created_at }) => moment(created_at))],
  ];
  const equal: Line[] = [];
  for (const one of [...comparedFields(kind, rows), ...kind.fields.filter(({ name }) => unitedFields.has(name))]) {
    const texts = comparedTexts(one, rows);
    if (texts.every((given) => given === '')) continue;
    const isOpen = !unitedFields.has(one.name) && differ(texts);
    const companies = isOpen && one.control === 'company' ? await describeCompanies(request, rows) : undefined;
    const shown = rows.map((row) => {
      const value = shownValue(one, row, users);
      return companies ? html`!${value} <span class="quiet">${companies.get(companyOf(row)) ?? ''}</span>` : value;
    });
    const into = new Set(texts).size === 1 ? equal : lines;
    const label = one.group === ownGroup ? fieldWord(kind.object, one.name, declared) : one.label;
    into.push([label, isOpen ? radios(controlOf(one.name), texts, shown) : shown]);
  }
  const columns: readonly Column<Line>[] = [
    ['Field', ([name]) => html`${name}`, 'row'],
    ...rows.map((_, i): Column<Line> => [i === 0 ? 'The oldest' : `Number ${i + 1}`, ([, cells]) => cells[i]!]),
  ];
  return html`!${table('Records side by side', columns, lines)}
  !${when(equal.length > 0, folded(counted(equal.length, 'equal value'), table('Equal values', columns, equal)))}`;
}

const differ = (texts: readonly string[]): boolean => new Set(texts.filter((given) => given !== '')).size > 1;
