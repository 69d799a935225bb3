import type { Prospect } from '../schemas/prospects.ts';
import {
  readHeldPeople,
  findUnlockResults,
  deleteHeldPeople,
  holdPeople,
  findUnlockingCustomers,
  clearUnlockResults,
} from '../queries/jobs/unlocks.ts';
import { identifiersOf, spellingsOf, type Identifier } from '../queries/jobs/catalog-imports.ts';
import type { Catalog } from './catalog.ts';
import { databaseOfAllCustomers, storesOf, type RightsServices, whenNoImportRuns } from './postgres.ts';
import * as privacy from '../queries/jobs/privacy.ts';
import type { PrivacyAction, Suppression } from '../queries/jobs/privacy.ts';
import { markRemovalRequested } from '../queries/crm/deletions.ts';
import { withDeferredWrites } from '../queries/records/deferred-writes.ts';
import { toDocument } from './document.ts';
import { readSuppressedPeople, type SuppressedPeople } from './suppressed-people.ts';
import type { SharedDatabase, Transaction } from '../database/db.ts';
import { lowestId } from '../database/connection.ts';
import type { StillHeld } from './import-lock.ts';
import { conflict, validationFailed, type DomainError } from '../errors.ts';
import type { KeyedDigests } from '../text/ids.ts';
import { PersonIds } from './parse-records.ts';

type FoundIn = 'catalog' | 'former catalog' | 'held' | 'job results';

export interface Copy {
  place: FoundIn;
  person: Prospect;
}

/** Returns every copy of the people with the identifier. Reads the whole catalog, unless the identifier is an id. */
export async function findPeople(services: RightsServices, identifier: Identifier): Promise<Copy[]> {
  const copies: Copy[] = [];
  const note = (place: FoundIn, people: Prospect[]): void => {
    for (const person of people) if (hasIdentifier(person, identifier)) copies.push({ place, person });
  };
  for (const store of storesOf(services))
    for await (const people of candidatesIn(store, identifier))
      note(store === services.catalog ? 'catalog' : 'former catalog', people);
  for (const people of await services.db.search(readHeldPeople)) note('held', people);
  note(
    'job results',
    await databaseOfAllCustomers(services).search((sql) => findUnlockResults(sql, spellingsOf(identifier))),
  );
  return copies;
}

const hasIdentifier = (person: Prospect, { kind, value }: Identifier): boolean =>
  identifiersOf(person).some((own) => own.kind === kind && own.value === value);

async function* candidatesIn(store: Catalog, { kind, value }: Identifier): AsyncGenerator<Prospect[]> {
  if (kind === 'id') {
    await store.refresh();
    yield await store.find([value]);
  } else yield* store.people();
}

const noEffects = {
  deleted: 0,
  held: 0,
  /** Number of customers who had unlocked a person, and are notified of the removal. */
  told: 0,
  contacts: 0,
  results: 0,
};

export type Effects = Readonly<typeof noEffects>;

const sumOf = (one: Effects, other: Effects): Effects =>
  Object.fromEntries(
    Object.entries(one).map(([name, number]) => [name, number + other[name as keyof Effects]]),
  ) as Effects;

/**
 * Erases suppressed people everywhere. Contacts stay, with a note. Erases from the catalog last, so that an interrupted
 * erasure can be found and repeated.
 */
async function erasePeople(services: RightsServices, ids: readonly string[]): Promise<Effects> {
  if (ids.length === 0) return noEffects;
  let effects = { ...noEffects };
  const all = databaseOfAllCustomers(services);
  const unlocks = await all.search((sql) => privacy.listUnlocksOf(sql, ids));
  const erasures = await all.search((sql) => privacy.findErasures(sql, ids));
  for (const [customerId, unlocked] of Map.groupBy(unlocks, ({ customer_id }) => customer_id)) {
    const unlockedIds = unlocked.map(({ prospect_id }) => prospect_id);
    effects = sumOf(effects, await eraseOfCustomer(services, customerId, unlockedIds, erasures));
  }
  await services.db.transaction((sql) => deleteHeldPeople(sql, ids));
  const deleted = await removeFromStores(services, ids);
  return { ...effects, deleted };
}

const eraseOfCustomer = (
  { db }: RightsServices,
  customerId: string,
  prospectIds: readonly string[],
  erasures: ReadonlyMap<string, string>,
): Promise<Effects> =>
  db.for({ customerId }, 'command').transaction((sql) =>
    withDeferredWrites(sql, customerId, async (deferred) => {
      // Rows of jobs are locked before the customer's records, as workers do.
      const results = await clearUnlockResults(sql, customerId, prospectIds);
      const contacts = await markRemovalRequested(sql, customerId, prospectIds, deferred);
      const removed = await privacy.insertRemovals(sql, customerId, prospectIds, erasures);
      for (const id of removed) deferred.removed(id);
      return { ...noEffects, told: removed.length, contacts: contacts.length, results };
    }),
  );

async function removeFromStores(services: RightsServices, ids: readonly string[]): Promise<number> {
  let deleted = 0;
  for (const store of storesOf(services)) {
    deleted += await store.remove(ids as string[]);
    await store.refresh();
  }
  return deleted;
}

/** Removes people from the catalog, but keeps their data in `held_people` until their suppression is removed. */
async function hold(services: RightsServices, people: readonly Prospect[]): Promise<Effects> {
  if (people.length === 0) return noEffects;
  await services.db.transaction((sql) => holdPeople(sql, people));
  await removeFromStores(services, idsOf(people));
  return { ...noEffects, held: people.length };
}

async function release({ db, catalog }: RightsServices, suppressed: SuppressedPeople): Promise<number> {
  let released = 0;
  for (const people of await db.search(readHeldPeople)) {
    const free = people.filter((person) => !suppressed.has(person));
    if (free.length === 0) continue;
    const ids = idsOf(free);
    await catalog.prepare();
    const stored = new Set(await catalog.findStored(ids));
    const missing = free.filter(({ _id }) => !stored.has(_id));
    const encode = (person: Prospect) => ({ id: person._id, bytes: Buffer.from(catalog.encode(toDocument(person))) });
    if (missing.length > 0) await catalog.write(missing.map(encode));
    await catalog.refresh();
    await db.transaction((sql) => deleteHeldPeople(sql, ids));
    released += free.length;
  }
  return released;
}

/**
 * Removes from the catalog again everyone who must not be in it, after running imports have ended. Then corrects the
 * suggested values, and deletes what is left of removed people elsewhere.
 * @param withUnlocks also looks for erased people among all unlocks, as needed after a restored backup
 */
const sweepCatalog = (services: RightsServices, withUnlocks = false): Promise<Effects> =>
  whenNoImportRuns(services, async (stillHeld) => {
    const suppressed = await readSuppressedPeople(services.db);
    let effects = await sweepStores(services, suppressed, stillHeld);
    effects = sumOf(effects, await sweepHeld(services, suppressed));
    if (withUnlocks) effects = sumOf(effects, await sweepUnlocks(services, suppressed, stillHeld));
    for (const store of storesOf(services)) {
      stillHeld();
      await store.finish();
      await store.purge();
    }
    await forgetStatistics(services.db);
    return effects;
  });

async function sweepStores(services: RightsServices, suppressed: SuppressedPeople, stillHeld: StillHeld) {
  let effects: Effects = noEffects;
  for (const store of storesOf(services))
    for await (const people of store.people()) {
      stillHeld();
      const found = people.filter((person) => suppressed.has(person));
      const [erased, others] = split(found, suppressed);
      effects = sumOf(effects, await erasePeople(services, idsOf(erased)));
      // What is left in a former catalog is older than what the catalog has or had.
      if (store === services.catalog) effects = sumOf(effects, await hold(services, others));
      else await store.remove(idsOf(others));
    }
  return effects;
}

async function sweepHeld(services: RightsServices, suppressed: SuppressedPeople): Promise<Effects> {
  const held = (await services.db.search(readHeldPeople)).flat();
  return erasePeople(services, idsOf(split(held, suppressed)[0]));
}

const batchSize = 10_000;

async function sweepUnlocks(services: RightsServices, suppressed: SuppressedPeople, stillHeld: StillHeld) {
  let effects: Effects = noEffects;
  for (let after = lowestId; ;) {
    stillHeld();
    const ids = await databaseOfAllCustomers(services).search((sql) => privacy.listUnlockedIds(sql, after, batchSize));
    const erased = ids.filter((id) => suppressed.isErased({ _id: id, work_email: '', emails: [], profnet_url: null }));
    effects = sumOf(effects, await erasePeople(services, erased));
    if (ids.length < batchSize) return effects;
    after = ids.at(-1)!;
  }
}

const idsOf = (people: readonly Prospect[]): string[] => people.map(({ _id }) => _id);

function split(people: readonly Prospect[], suppressed: SuppressedPeople): [erased: Prospect[], others: Prospect[]] {
  const erased = people.filter((person) => suppressed.isErased(person));
  return [erased, people.filter((person) => !erased.includes(person))];
}

/** Collects the statistics of PostgreSQL's planner again, because they contain values of erased people. */
const forgetStatistics = (db: SharedDatabase) => db.transaction((sql) => sql`analyze job_results, held_people`);

export interface Noted {
  operator: string;
  case_ref?: string | undefined;
  reason?: string | undefined;
}

/**
 * Erases the people with the identifier, and notifies customers who have unlocked them. First suppresses all their
 * identifiers, so that nobody can import or unlock them. Can be repeated after an interruption.
 * @param isConfirmed also erases if several people have the identifier
 * @returns the effects, and the number of new suppressions
 * @throws DomainError `conflict` if several people have the identifier; nothing is written
 */
export async function erase(
  services: RightsServices,
  identifier: Identifier,
  noted: Noted,
  { isConfirmed = false } = {},
): Promise<Effects & { suppressed: number }> {
  const people = (await findPeople(services, identifier)).map(({ person }) => person);
  const { made, linked } = await findUnlockedIds(services, identifier);
  const meant = new Set([...people.map(({ _id }) => _id), ...linked]);
  if (meant.size > 1 && !isConfirmed) throw severalPeople(meant);
  const unlocked = [...made, ...linked];
  const found = [...people.flatMap(identifiersOf), ...unlocked.map((value) => ({ kind: 'id' as const, value }))];
  const suppressed = await addSuppressions(services, 'erase', erasureOf(identifier, found), identifier, noted);
  const effects = await erasePeople(services, [...meant.union(new Set(made))]);
  return { ...sumOf(effects, await sweepCatalog(services)), suppressed };
}

function severalPeople(ids: ReadonlySet<string>): DomainError {
  const shown = [...ids].slice(0, 10).join(', ') + (ids.size > 10 ? ', …' : '');
  return conflict(`${ids.size} people have this identifier: erase one by --id, or all with --yes (${shown})`);
}

/**
 * Returns the ids under which customers have unlocked the person. `made`: ids that imports compute from the identifier.
 * `linked`: prospect ids of contacts that have the identifier.
 */
async function findUnlockedIds(services: RightsServices, identifier: Identifier) {
  const ofImports = new Set((await PersonIds.open(services.db)).allOf(identifier));
  const all = databaseOfAllCustomers(services);
  const contacts = await all.search((sql) => privacy.listContactsOf(sql, [identifier]));
  const ids = ofImports.union(new Set(contacts.flatMap(({ prospect_id }) => prospect_id ?? [])));
  const [made, linked]: [string[], string[]] = [[], []];
  for (const value of (await all.search((sql) => findUnlockingCustomers(sql, [...ids]))).keys()) {
    const stored = await findPeople(services, { kind: 'id', value });
    const isOthers = stored.length > 0 && !stored.some(({ person }) => hasIdentifier(person, identifier));
    if (!isOthers) (ofImports.has(value) ? made : linked).push(value);
  }
  return { made, linked };
}

/**
 * Returns the distinct identifiers to suppress. Only ids and the given identifier cause an erasure. Other identifiers,
 * such as an office's e-mail address, can belong to other people, who are then only kept out of the catalog.
 */
function erasureOf(given: Identifier, found: Identifier[]): Suppressing[] {
  const rows = new Map(found.map((own) => [`${own.kind}:${own.value}`, { ...own, is_erasure: own.kind === 'id' }]));
  return [...rows.set(`${given.kind}:${given.value}`, { ...given, is_erasure: true }).values()];
}

type Suppressing = Identifier & { is_erasure: boolean };

const addSuppressions = (
  services: RightsServices,
  action: 'erase' | 'suppress',
  added: readonly Suppressing[],
  identifier: Identifier,
  noted: Noted,
): Promise<number> => {
  const { reason = action === 'erase' ? 'erasure' : '', case_ref = null } = noted;
  return changeSuppressions(services, action, identifier, noted, (sql, digests) => {
    const rows = added.flatMap(({ is_erasure, ...own }) =>
      privacy.keysOf(digests, own).map((key) => ({ ...key, is_erasure, reason, case_ref })),
    );
    return privacy.insertSuppressions(sql, rows);
  });
};

export async function suppress(services: RightsServices, identifier: Identifier, noted: Noted): Promise<Effects> {
  await addSuppressions(services, 'suppress', [{ ...identifier, is_erasure: false }], identifier, noted);
  const copies = await findPeople(services, identifier);
  const listed = copies.flatMap(({ place, person }) => (place === 'catalog' ? person : []));
  return sumOf(await hold(services, listed), await sweepCatalog(services));
}

/**
 * Removes the suppression of an identifier, or all suppressions of a case. Held people return to the catalog at once,
 * unless another of their identifiers is suppressed.
 * @returns the number of removed suppressions, and of returned people
 */
export async function removeSuppression(
  services: RightsServices,
  identifier: Identifier | undefined,
  noted: Noted,
): Promise<{ lifted: number; shown: number }> {
  const lifted = await changeSuppressions(services, 'lift', identifier, noted, async (sql, digests) =>
    privacy.deleteSuppressions(
      sql,
      identifier
        ? privacy.keysOf(digests, identifier)
        : await privacy.findSuppressionsOfCase(sql, noted.case_ref ?? ''),
    ),
  );
  // A reindex that runs could have passed the place to which a person is written back, and would lose the person.
  const shown = await whenNoImportRuns(services, async () =>
    release(services, await readSuppressedPeople(services.db)),
  );
  return { lifted, shown };
}

export interface SavedList {
  secret_check: string;
  suppressions: (Omit<Suppression, 'digest'> & { digest: string })[];
}

export async function list({ db }: RightsServices, noted: Noted): Promise<SavedList> {
  await privacy.notePrivacyAction(db, { action: 'list', ...noted }, () => Promise.resolve({}));
  return db.transaction(async (sql) => {
    const rows = await privacy.listSuppressions(sql);
    return {
      secret_check: checkOf(await privacy.openDigests(sql)),
      suppressions: rows.map(({ digest, ...row }) => ({ ...row, digest: digest.toString('hex') })),
    };
  });
}

const checkOf = (digests: KeyedDigests): string => privacy.toBytes(digests.of('suppressions')).toString('hex', 0, 8);

/**
 * Adds the suppressions of a saved list, if there is one. Then applies all suppressions to the catalog and to the data
 * of a restored backup.
 * @throws DomainError `validation_failed` if the list was made with another secret
 */
export async function apply(
  services: RightsServices,
  saved: SavedList | undefined,
  noted: Noted,
): Promise<Effects & { suppressed: number }> {
  const suppressed = await changeSuppressions(services, 'apply', undefined, noted, async (sql, digests) => {
    if (saved && saved.secret_check !== checkOf(digests))
      throw validationFailed([
        { path: '', message: 'the list is of another installation: its digests match nobody here' },
      ]);
    const given = (saved?.suppressions ?? []).map((row) => ({ ...row, digest: Buffer.from(row.digest, 'hex') }));
    return given.length === 0 ? 0 : privacy.insertSuppressions(sql, given);
  });
  return { ...(await sweepCatalog(services, true)), suppressed };
}

async function changeSuppressions(
  { db }: RightsServices,
  action: PrivacyAction['action'],
  identifier: Identifier | undefined,
  noted: Noted,
  change: (sql: Transaction, digests: KeyedDigests) => Promise<number>,
): Promise<number> {
  const digests = await db.lookup(privacy.openDigests);
  const key = identifier && privacy.keysOf(digests, identifier)[0];
  const { changed } = await privacy.notePrivacyAction(db, { action, key, ...noted }, async (sql) => {
    await privacy.lockSuppressions(sql);
    return { changed: await change(sql, digests) };
  });
  return changed!;
}
