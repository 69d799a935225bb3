import { identifiersOf, spellingsOf, valuesOf, type Identifier } from '../queries/jobs/catalog-imports.ts';
import * as privacy from '../queries/jobs/privacy.ts';
import type { ContactOfPerson, Mentions, UnlockOfPerson, LoggedAction, Suppression } from '../queries/jobs/privacy.ts';
import { PersonIds } from './parse-records.ts';
import { findPeople, type Copy, type Noted } from './privacy.ts';
import { databaseOfAllCustomers, type RightsServices } from './postgres.ts';

type Named<T> = T & { customer: string };

export interface Report {
  people: Copy[];
  unlocks: Named<UnlockOfPerson>[];
  contacts: Named<ContactOfPerson>[];
  mentions: Named<Mentions>[];
  suppressions: Omit<Suppression, 'digest'>[];
  actions: LoggedAction[];
}

/**
 * Finds all data about the people with an identifier. After an erasure, it still finds the customers' own records.
 * @param action name of the action in the operators' log
 */
export async function report(
  services: RightsServices,
  identifier: Identifier,
  noted: Noted,
  action: 'find' | 'export',
): Promise<Report> {
  const people = await findPeople(services, identifier);
  const identifiers = await identifiersFor(services, identifier, people);
  const all = databaseOfAllCustomers(services);
  const linked = await all.search((sql) => privacy.listContactsOf(sql, identifiers));
  // Contacts that were changed since have only the prospect in common with those that have the address.
  const known = [...identifiers, ...linked.flatMap(({ prospect_id }) => (prospect_id ? [idOf(prospect_id)] : []))];
  const prospectIds = valuesOf(known, 'id');
  const merged = await all.search((sql) => privacy.listMergedContactsOf(sql, prospectIds));
  const contacts = await all.search((sql) => privacy.listContactsOf(sql, known, merged));
  const unlocks = await all.search((sql) => privacy.listUnlocksOf(sql, prospectIds));
  const mentions = await all.search((sql) =>
    privacy.countMentions(sql, [...new Set(known.filter(({ kind }) => kind !== 'id').flatMap(spellingsOf))]),
  );
  const ids = [...new Set([...contacts, ...unlocks, ...mentions].map(({ customer_id }) => customer_id))];
  const names = await services.db.lookup((sql) => privacy.namesOfCustomers(sql, ids));
  const named = <T extends { customer_id: string }>(rows: T[]): Named<T>[] =>
    rows.map((row) => ({ ...row, customer: names.get(row.customer_id) ?? '' }));
  const noticed = await noteAndRead(services, identifier, people, noted, action);
  return { people, unlocks: named(unlocks), contacts: named(contacts), mentions: named(mentions), ...noticed };
}

/**
 * Returns all identifiers of these people, and the ids that an import may have computed from them. A person who has
 * left the catalog can still be unlocked.
 */
async function identifiersFor({ db }: RightsServices, given: Identifier, people: Copy[]): Promise<Identifier[]> {
  const identifiers = [given, ...people.flatMap(({ person }) => identifiersOf(person))];
  const ids = await PersonIds.open(db);
  return [...identifiers, ...identifiers.flatMap((own) => ids.allOf(own)).map(idOf)];
}

const idOf = (value: string): Identifier => ({ kind: 'id', value });

async function noteAndRead(
  { db }: RightsServices,
  identifier: Identifier,
  people: Copy[],
  noted: Noted,
  action: 'find' | 'export',
): Promise<Pick<Report, 'suppressions' | 'actions'>> {
  const digests = await db.lookup(privacy.openDigests);
  const [key] = privacy.keysOf(digests, identifier);
  const actions = await db.lookup((sql) => privacy.listPrivacyActions(sql, key!));
  await privacy.notePrivacyAction(db, { action, key, ...noted }, () => Promise.resolve({ people: people.length }));
  const keys = [identifier, ...people.flatMap(({ person }) => identifiersOf(person))].flatMap((own) =>
    privacy.keysOf(digests, own),
  );
  const rows = await db.lookup((sql) => privacy.findSuppressions(sql, keys));
  return { suppressions: rows.map(({ digest: _digest, ...row }) => row), actions: [...actions] };
}
