import type { Transaction } from '../../database/db.ts';
import { identifiersOf, type Identifier } from '../../queries/catalog/identifiers.ts';
import { notePrivacyAction, type PrivacyAction } from '../../queries/catalog/privacy-log.ts';
import { listContactsOf } from '../../queries/catalog/privacy-reports.ts';
import {
  deleteSuppressions,
  findSuppressionsOfCase,
  insertSuppressions,
  keysOf,
  listSuppressions,
  lockSuppressions,
  openDigests,
  toBytes,
  type Suppression,
} from '../../queries/catalog/suppressions.ts';
import { findUnlockingCustomers } from '../../queries/catalog/unlocks.ts';
import { conflict, validationFailed, type DomainError } from '../../errors.ts';
import type { KeyedDigests } from '../../text/keyed-digests.ts';
import { PersonIds } from '../import/person-ids.ts';
import { findPeople, hasIdentifier } from './find-people.ts';
import { ofAll, whenNoImportRuns, type RightsServices } from './stores.ts';
import { SuppressedPeople } from './suppressed-people.ts';
import { sweepCatalog } from './sweep.ts';
import { erasePeople, hold, release, sumOf, type Effects } from './take-out.ts';

export interface Noted {
  operator: string;
  case_ref?: string | undefined;
  reason?: string | undefined;
}

/**
 * Erases the people who have the identifier. First suppresses every identifier that they have anywhere, so that nobody
 * imports or unlocks them any more. Others who share a further identifier of theirs are held, not deleted. Customers who
 * unlocked them are told also if the catalog has them no more. Can be repeated after an interruption, with the same
 * identifier.
 * @param isConfirmed also erases if several people have the identifier
 * @returns what was written, and how many identifiers were not suppressed before
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
  const suppressed = await changeSuppressions(services, 'erase', identifier, noted, (sql, digests) =>
    insertSuppressions(
      sql,
      erasureOf(identifier, found).flatMap(({ is_erasure, ...own }) =>
        keysOf(digests, own).map((key) => ({
          ...key,
          is_erasure,
          reason: noted.reason ?? 'erasure',
          case_ref: noted.case_ref ?? null,
        })),
      ),
    ),
  );
  const effects = await erasePeople(services, [...meant.union(new Set(made))]);
  return { ...sumOf(effects, await sweepCatalog(services)), suppressed };
}

function severalPeople(ids: ReadonlySet<string>): DomainError {
  const shown = [...ids].slice(0, 10).join(', ') + (ids.size > 10 ? ', …' : '');
  return conflict(`${ids.size} people have this identifier: erase one by --id, or all with --yes (${shown})`);
}

/**
 * Returns the ids under which customers have unlocked the person: `made` are ids that imports make of the identifier,
 * `linked` those from which contacts with the identifier came. Leaves out ids of people who do not have it.
 */
async function findUnlockedIds(
  services: RightsServices,
  identifier: Identifier,
): Promise<{ made: string[]; linked: string[] }> {
  const ofImports = new Set((await PersonIds.open(services.db)).allOf(identifier));
  const all = ofAll(services);
  const contacts = await all.search((sql) => listContactsOf(sql, [identifier]));
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
 * Returns the identifiers to suppress, each once. Others who share only a further identifier, such as the e-mail address
 * of an office, are not deleted: they are kept out until the suppression of that identifier is lifted.
 */
function erasureOf(given: Identifier, found: Identifier[]): (Identifier & { is_erasure: boolean })[] {
  const rows = new Map(found.map((own) => [`${own.kind}:${own.value}`, { ...own, is_erasure: own.kind === 'id' }]));
  return [...rows.set(`${given.kind}:${given.value}`, { ...given, is_erasure: true }).values()];
}

/** Keeps the people who have the identifier out of the catalog, until `lift`. */
export async function suppress(services: RightsServices, identifier: Identifier, noted: Noted): Promise<Effects> {
  await changeSuppressions(services, 'suppress', identifier, noted, (sql, digests) =>
    insertSuppressions(
      sql,
      keysOf(digests, identifier).map((key) => ({
        ...key,
        is_erasure: false,
        reason: noted.reason ?? '',
        case_ref: noted.case_ref ?? null,
      })),
    ),
  );
  const copies = await findPeople(services, identifier);
  const listed = copies.flatMap(({ place, person }) => (place === 'catalog' ? person : []));
  const effects = await hold(
    services,
    listed.filter((person) => hasIdentifier(person, identifier)),
  );
  return sumOf(effects, await sweepCatalog(services));
}

/**
 * Lifts the suppression of an identifier, or all of a case. People who were never deleted are shown again at once,
 * unless another identifier of theirs is suppressed.
 * @returns how many suppressions were lifted, and how many people are shown again
 */
export async function lift(
  services: RightsServices,
  identifier: Identifier | undefined,
  noted: Noted,
): Promise<{ lifted: number; shown: number }> {
  const lifted = await changeSuppressions(services, 'lift', identifier, noted, async (sql, digests) =>
    deleteSuppressions(
      sql,
      identifier ? keysOf(digests, identifier) : await findSuppressionsOfCase(sql, noted.case_ref ?? ''),
    ),
  );
  // A reindex that runs could have passed the place to which a person is written back, and would lose the person.
  const shown = await whenNoImportRuns(services, async () =>
    release(services, await SuppressedPeople.open(services.db)),
  );
  return { lifted, shown };
}

export interface SavedList {
  /** Tells whether the digests were made with this installation's secret. */
  secret_check: string;
  suppressions: (Omit<Suppression, 'digest'> & { digest: string })[];
}

export async function list({ db }: RightsServices, noted: Noted): Promise<SavedList> {
  await notePrivacyAction(db, { action: 'list', ...noted }, () => Promise.resolve({}));
  return db.transaction(async (sql) => {
    const rows = await listSuppressions(sql);
    return {
      secret_check: checkOf(await openDigests(sql)),
      suppressions: rows.map(({ digest, ...row }) => ({ ...row, digest: digest.toString('hex') })),
    };
  });
}

const checkOf = (digests: KeyedDigests): string => toBytes(digests.of('suppressions')).toString('hex', 0, 8);

/**
 * Adds the suppressions of a saved list, and enforces all there are: in the catalog and in what a restored backup has.
 * @param saved undefined: only enforces
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
    return given.length === 0 ? 0 : insertSuppressions(sql, given);
  });
  return { ...(await sweepCatalog(services, true)), suppressed };
}

/** Changes suppressions and records the action in one transaction. After it, no job unlocks these people. */
async function changeSuppressions(
  { db }: RightsServices,
  action: PrivacyAction['action'],
  identifier: Identifier | undefined,
  noted: Noted,
  change: (sql: Transaction, digests: KeyedDigests) => Promise<number>,
): Promise<number> {
  const digests = await db.lookup(openDigests);
  const key = identifier && keysOf(digests, identifier)[0];
  const { changed } = await notePrivacyAction(db, { action, key, ...noted }, async (sql) => {
    await lockSuppressions(sql);
    return { changed: await change(sql, digests) };
  });
  return changed!;
}
