import type { Transaction } from '../../database/db.ts';
import { DomainError, missingReferences, duplicateExternalId } from '../../errors.ts';
import { referringMembers } from '../../schemas/batches.ts';
import { fold } from '../../text/fold.ts';
import { companyTable, contactTable, findByExternalIds, opportunityTable, productTable } from './batch-rows.ts';
import { pendingItems, type Batch, type Item, fail, type RecordTable } from './batches.ts';
import { constant } from '../../filters/sql.ts';

/**
 * Tables of the records to which a request can refer. To avoid deadlocks, every transaction locks them in this order,
 * and only then the record that refers to them.
 */
const tables = {
  company: 'companies',
  contact: 'contacts',
  opportunity: 'opportunities',
  user: 'users',
  stage: 'stages',
  product: 'products',
  list: 'lists',
} as const;

const marksDeleted: ReadonlySet<Reference['noun']> = new Set(['company', 'product', 'list'] as const);

export interface Reference {
  noun: keyof typeof tables;
  id: string;
  path: string;
}

/**
 * Locks the referenced records, so that they cannot be deleted.
 * @returns the references for which the customer has no record
 */
export async function lockReferences(
  sql: Transaction,
  customerId: string,
  references: Reference[],
): Promise<Reference[]> {
  const nouns = (Object.keys(tables) as Reference['noun'][]).filter((noun) =>
    references.some((one) => one.noun === noun),
  );
  const found = await Promise.all(
    nouns.map(async (noun) => {
      const ids = references.filter((one) => one.noun === noun).map(({ id }) => id);
      return (await lockRows(sql, customerId, noun, ids)).map((row) => keyOf(noun, row.id));
    }),
  );
  const known = new Set(found.flat());
  return references.filter(({ noun, id }) => !known.has(keyOf(noun, id)));
}

/**
 * Locks the records to which the items of a batch refer. Call it before the items' own records are locked.
 * @returns for each item, its references to records that do not exist
 */
export async function lockReferencesOf<Row>(
  sql: Transaction,
  customerId: string,
  items: readonly Item<Row>[],
  referencesOf: (body: Item<Row>['body']) => Reference[],
): Promise<Map<Item<Row>, Reference[]>> {
  const all = pendingItems(items).map((item) => [item, referencesOf(item.body)] as const);
  const missing = new Set(
    await lockReferences(
      sql,
      customerId,
      all.flatMap(([, references]) => references),
    ),
  );
  return new Map(all.map(([item, references]) => [item, references.filter((one) => missing.has(one))]));
}

export const errorOfMissing = (missing: { noun: string; path: string }[] = []): DomainError | undefined =>
  missing.length > 0 ? missingReferences(missing) : undefined;

/**
 * Locks the referenced records, so that they cannot be deleted.
 * @throws DomainError `not_found` with the JSON pointer of every reference that is not a record of the customer
 */
export async function requireReferences(sql: Transaction, customerId: string, references: Reference[]): Promise<void> {
  const error = errorOfMissing(await lockReferences(sql, customerId, references));
  if (error) throw error;
}

const recordTables = {
  company: companyTable,
  contact: contactTable,
  opportunity: opportunityTable,
  product: productTable,
};

type OtherReference = { external_id: string } | { pipeline: string; stage: string } | { email: string };
type ReferredNoun = keyof typeof recordTables | 'stage' | 'user';

function valueOf(given: OtherReference, inForm: (name: string) => string = String): string {
  if ('external_id' in given) return given.external_id;
  return 'email' in given ? fold(given.email) : JSON.stringify([inForm(given.pipeline), inForm(given.stage)]);
}

/**
 * Replaces external ids, names and addresses by ids in the references of a batch's items. An item that refers to a
 * missing record becomes the error `not_found`.
 */
export async function withReferredIds(
  sql: Transaction,
  customerId: string,
  { items }: Pick<Batch, 'items'>,
): Promise<Batch['items']> {
  const wanted = new Map<ReferredNoun, Set<string>>();
  const referring = new Set<object>();
  for (const item of items)
    replaceReferences(item, (given, noun) => {
      wanted.set(noun, (wanted.get(noun) ?? new Set()).add(valueOf(given)));
      referring.add(item);
      return undefined;
    });
  if (wanted.size === 0) return items;
  const stages = wanted.has('stage') ? await findStages(sql, customerId) : [];
  const found = new Map<ReferredNoun, Map<string, string>>();
  for (const [noun, values] of wanted)
    if (noun === 'stage') found.set(noun, idsByName(stages.toReversed()));
    else if (noun === 'user') found.set(noun, await findUsers(sql, customerId, [...values]));
    else found.set(noun, await findByExternalIds(sql, customerId, recordTables[noun], [...values]));
  return items.map((item) => {
    if (!referring.has(item)) return item;
    const missing: { noun: string; path: string; message: string }[] = [];
    const replaced = replaceReferences(item, (given, noun, path) => {
      const ids = found.get(noun)!;
      const id = ids.get(valueOf(given)) ?? ('stage' in given ? ids.get(foldedOf(given)) : undefined);
      if (id === undefined) missing.push({ noun, path, message: notFoundMessage(given, noun, stages) });
      return id;
    });
    return errorOfMissing(missing) ?? replaced;
  });
}

type Replace = (given: OtherReference, noun: ReferredNoun, path: string) => unknown;

function replaceReferences(item: object, replace: Replace): object {
  if (item instanceof DomainError) return item;
  const members = Object.entries(item).map(([name, value]: [string, unknown]) => {
    const noun = Object.hasOwn(referringMembers, name)
      ? referringMembers[name as keyof typeof referringMembers]
      : undefined;
    return [name, noun === undefined ? value : replaceIn(value, noun, `/${name}`, replace)];
  });
  return Object.fromEntries(members) as object;
}

function replaceIn(value: unknown, noun: ReferredNoun, path: string, replace: Replace): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((one, i) => replaceIn(one, noun, `${path}/${i}`, replace));
  if ('external_id' in value || 'pipeline' in value || 'email' in value)
    return replace(value as OtherReference, noun, path);
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, replaceIn(one, noun, `${path}/${name}`, replace)]),
  );
}

interface NamedStage {
  id: string;
  pipeline: string;
  stage: string;
  isPrivate: boolean;
}

const maxListedStages = 5;

/** Returns the error message for a reference that was not found. Stages of private pipelines are not listed. */
function notFoundMessage(given: OtherReference, noun: ReferredNoun, stages: readonly NamedStage[]): string {
  if ('external_id' in given) return `no ${noun} has the external_id ${JSON.stringify(given.external_id)}`;
  if ('email' in given) return `no user has the address ${JSON.stringify(given.email)}`;
  const shown = stages.filter(({ isPrivate }) => !isPrivate).slice(0, maxListedStages);
  const names = shown.map(({ pipeline, stage }) => `${pipeline} / ${stage}`);
  return `${JSON.stringify(`${given.pipeline} / ${given.stage}`)} is not a stage (such as ${names.join(', ')})`;
}

const foldedOf = (names: OtherReference): string => `folded ${valueOf(names, fold)}`;

/**
 * Returns the ids of stages by their exact names, and by their folded names (lower case, no accents). Of several stages
 * with the same key, the last counts.
 */
const idsByName = (stages: readonly NamedStage[]): Map<string, string> =>
  new Map(
    stages.flatMap(({ id, ...names }) => [
      [foldedOf(names), id],
      [valueOf(names), id],
    ]),
  );

/** Returns the stages of a customer, the oldest first. If several have the same names, a reference means the oldest. */
const findStages = (sql: Transaction, customerId: string): Promise<NamedStage[]> => sql`
  select s.id, p.name as pipeline, s.name as stage, p.visibility = 'PRIVATE' as "isPrivate"
  from stages s
  join pipelines p on p.customer_id = ${customerId} and p.id = s.pipeline_id
  where s.customer_id = ${customerId}
  order by s.id`;

async function findUsers(sql: Transaction, customerId: string, emails: string[]): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; email_folded: string }[]>`
    select id, email_folded
    from users
    where customer_id = ${customerId}
      and email_folded = any(${emails}::text[])`;
  return new Map(rows.map((user) => [user.email_folded, user.id]));
}

const keyOf = (noun: Reference['noun'], id: string): string => `${noun} ${id}`;

// Users are never deleted. In a distributed database, locking one would lock all of them, on every node.
const unlocked: ReadonlySet<Reference['noun']> = new Set(['user'] as const);

const lockRows = (sql: Transaction, customerId: string, noun: Reference['noun'], ids: string[]) =>
  sql<{ id: string }[]>`
    select id
    from ${sql(tables[noun])}
    where customer_id = ${customerId}
      and id = any(${ids}::uuid[])
      ${marksDeleted.has(noun) ? sql`and deleted_at is null` : sql``}
    order by id
    ${unlocked.has(noun) ? sql`` : sql`for key share`}`;

interface Row {
  external_id: string | null;
}

/**
 * Fails each item whose external id another record has. An item can take an external id that an earlier item gives up
 * (or any item, see `mayExchange`), unless the batch is a trial. Clears such an id in the other record first, because
 * external ids are unique.
 */
export async function assignExternalIds<T extends Row>(
  sql: Transaction,
  customerId: string,
  records: RecordTable,
  { isTrial = false, mayExchange = false }: Pick<Batch, 'isTrial' | 'mayExchange'>,
  items: readonly Item<T>[],
): Promise<void> {
  const taken = await findTaken(sql, customerId, records, pendingItems(items).flatMap(newExternalId));
  if (mayExchange) {
    const changing = pendingItems(items)
      .map((item) => ({ item, has: item.stored?.external_id ?? null, wants: item.columns!.external_id }))
      .filter(({ has, wants }) => has !== wants);
    const refused = findRefused(taken, changing);
    for (const { item } of refused) fail(item, duplicateExternalId(records.kind.noun));
    const free = changing.flatMap((one) => (refused.has(one) || !one.item.stored ? [] : one.item.stored.id));
    return clear(sql, customerId, records, free);
  }
  const givenUp = new Map<string, string>();
  const passedOn: string[] = [];
  for (const item of pendingItems(items)) {
    const [wanted] = newExternalId(item);
    if (wanted !== undefined && taken.has(wanted)) {
      fail(item, duplicateExternalId(records.kind.noun));
      continue;
    }
    const { stored, columns } = item;
    if (isTrial) continue;
    if (stored && stored.external_id !== null && stored.external_id !== columns!.external_id) {
      taken.delete(stored.external_id);
      givenUp.set(stored.external_id, stored.id);
    }
    if (wanted === undefined) continue;
    taken.add(wanted);
    passedOn.push(...(givenUp.has(wanted) ? [givenUp.get(wanted)!] : []));
  }
  await clear(sql, customerId, records, passedOn);
}

const newExternalId = ({ stored, columns }: Item<Row>): string[] => {
  const wanted = columns?.external_id ?? null;
  return wanted === null || wanted === stored?.external_id ? [] : [wanted];
};

/**
 * Returns the records that cannot get a new external id. Another record gets it too, or has it and keeps it.
 * @param taken external ids that records have
 * @param changing the external ids of records before (`has`) and after (`wants`)
 */
export function findRefused<T extends { has: string | null; wants: string | null }>(
  taken: ReadonlySet<string>,
  changing: readonly T[],
): Set<T> {
  const refused = new Set<T>();
  for (let known = -1; known < refused.size;) {
    known = refused.size;
    // Those who are refused keep theirs, and give it to nobody.
    const open = changing.filter((one) => !refused.has(one));
    const free = new Set(open.map(({ has }) => has));
    const given = new Set<string>();
    for (const one of open) {
      if (one.wants === null) continue;
      if ((taken.has(one.wants) && !free.has(one.wants)) || given.has(one.wants)) refused.add(one);
      given.add(one.wants);
    }
  }
  return refused;
}

export async function findTaken(
  sql: Transaction,
  customerId: string,
  { table, visible }: RecordTable,
  wanted: readonly string[],
): Promise<Set<string>> {
  if (wanted.length === 0) return new Set();
  const rows = await sql<{ external_id: string }[]>`
    select r.external_id
    from ${constant(sql, table)} r
    where r.customer_id = ${customerId}
      and r.external_id = any(${wanted as string[]}::text[])
      and ${constant(sql, visible)}`;
  return new Set(rows.map(({ external_id }) => external_id));
}

async function clear(sql: Transaction, customerId: string, { table }: RecordTable, ids: readonly string[]) {
  if (ids.length === 0) return;
  await sql`
    update ${constant(sql, table)}
    set external_id = null
    where customer_id = ${customerId}
      and id = any(${ids as string[]}::uuid[])`;
}
