import type { Identifier } from '../../queries/catalog/identifiers.ts';
import { identifiersOf } from '../../queries/catalog/identifiers.ts';
import {
  countMentions,
  listContactsOf,
  listMergedContactsOf,
  listUnlocksOf,
  namesOfCustomers,
  type ContactOfPerson,
  type Mentions,
  type UnlockOfPerson,
} from '../../queries/catalog/privacy-reports.ts';
import { insertPrivacyAction, listPrivacyActions, type LoggedAction } from '../../queries/catalog/privacy-log.ts';
import { findSuppressions, openDigests, type Suppression } from '../../queries/catalog/suppressions.ts';
import { PersonIds } from '../import/person-ids.ts';
import { findPeople, type Copy } from './find-people.ts';
import { keyOf, type Noted } from './requests.ts';
import { ofAll, type RightsServices } from './stores.ts';

type Named<T> = T & { customer: string };

/** What the installation holds about the people who have an identifier. */
export interface Report {
  people: Copy[];
  /** Customers who received the data. */
  unlocks: Named<UnlockOfPerson>[];
  contacts: Named<ContactOfPerson>[];
  mentions: Named<Mentions>[];
  suppressions: Omit<Suppression, 'digest'>[];
  /** What was done about the identifier before. */
  actions: LoggedAction[];
}

/**
 * Finds what the installation holds. After an erasure it still finds the customers' own records, by what was given.
 * @param action noted in the operators' log
 */
export async function report(
  services: RightsServices,
  identifier: Identifier,
  noted: Noted,
  action: 'find' | 'export',
): Promise<Report> {
  const people = await findPeople(services, identifier);
  const traits = await traitsOf(services, identifier, people);
  const all = ofAll(services);
  const linked = await all.search((sql) => listContactsOf(sql, { ...traits, ids: [] }));
  // Contacts that were changed since have only the prospect in common with those that have the address.
  const prospectIds = distinct([...traits.prospectIds, ...linked.flatMap(({ prospect_id }) => prospect_id ?? [])]);
  const merged = await all.search((sql) => listMergedContactsOf(sql, prospectIds));
  const contacts = await all.search((sql) => listContactsOf(sql, { ...traits, ids: merged, prospectIds }));
  const unlocks = await all.search((sql) => listUnlocksOf(sql, prospectIds));
  const mentions = await all.search((sql) => countMentions(sql, [...traits.emails, ...traits.profiles]));
  const ids = distinct([...contacts, ...unlocks, ...mentions].map(({ customer_id }) => customer_id));
  const names = await services.db.lookup((sql) => namesOfCustomers(sql, ids));
  const named = <T extends { customer_id: string }>(rows: T[]): Named<T>[] =>
    rows.map((row) => ({ ...row, customer: names.get(row.customer_id) ?? '' }));
  const known = await noteAndRead(services, identifier, people, noted, action);
  return { people, unlocks: named(unlocks), contacts: named(contacts), mentions: named(mentions), ...known };
}

async function traitsOf({ db }: RightsServices, given: Identifier, people: Copy[]) {
  const identifiers = [given, ...people.flatMap(({ person }) => identifiersOf(person))];
  const ofKind = (kind: Identifier['kind']) =>
    distinct(identifiers.filter((own) => own.kind === kind).map(({ value }) => value));
  const ids = await PersonIds.open(db);
  // Ids that an import without `_id` gives: a person may be gone from the catalog, and still be unlocked.
  const derived = ofKind('email').flatMap((email) => ids.allOfEmail(email));
  return { prospectIds: [...ofKind('id'), ...derived], emails: ofKind('email'), profiles: ofKind('profnet_url') };
}

const noteAndRead = (
  { db }: RightsServices,
  identifier: Identifier,
  people: Copy[],
  noted: Noted,
  action: 'find' | 'export',
): Promise<Pick<Report, 'suppressions' | 'actions'>> =>
  db.transaction(async (sql) => {
    const digests = await openDigests(sql);
    const key = keyOf(digests, identifier);
    const actions = await listPrivacyActions(sql, key);
    await insertPrivacyAction(sql, { action, key, ...noted, details: { people: people.length } });
    const keys = [identifier, ...people.flatMap(({ person }) => identifiersOf(person))];
    const rows = await findSuppressions(
      sql,
      keys.map((own) => keyOf(digests, own)),
    );
    return { suppressions: rows.map(({ digest: _digest, ...row }) => row), actions: [...actions] };
  });

const distinct = (texts: string[]): string[] => [...new Set(texts)];
