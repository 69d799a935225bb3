import type { Prospect } from '../../schemas/prospects.ts';
import { readHeldPeople } from '../../queries/catalog/held-people.ts';
import { identifiersOf, spellingsOf, type Identifier } from '../../queries/catalog/identifiers.ts';
import { findUnlockResults } from '../../queries/jobs/unlock-results.ts';
import type { Catalog } from '../catalog.ts';
import { ofAll, storesOf, type RightsServices } from './stores.ts';

/** Where the service itself keeps people. Contacts are customers' own. */
export type Place = 'catalog' | 'former catalog' | 'held' | 'job results';

export interface Copy {
  place: Place;
  person: Prospect;
}

/** Returns every copy of the people who have the identifier. Reads the whole catalog, unless it is an id. */
export async function findPeople(services: RightsServices, identifier: Identifier): Promise<Copy[]> {
  const copies: Copy[] = [];
  const note = (place: Place, people: Prospect[]): void => {
    for (const person of people) if (hasIdentifier(person, identifier)) copies.push({ place, person });
  };
  for (const store of storesOf(services))
    for await (const people of candidatesIn(store, identifier))
      note(store === services.catalog ? 'catalog' : 'former catalog', people);
  await services.db.search(async (sql) => {
    for await (const people of readHeldPeople(sql)) note('held', people);
  });
  note('job results', await ofAll(services).search((sql) => findUnlockResults(sql, spellingsOf(identifier))));
  return copies;
}

export const hasIdentifier = (person: Prospect, { kind, value }: Identifier): boolean =>
  identifiersOf(person).some((own) => own.kind === kind && own.value === value);

async function* candidatesIn(store: Catalog, { kind, value }: Identifier): AsyncGenerator<Prospect[]> {
  if (kind === 'id') {
    await store.refresh();
    yield await store.find([value]);
  } else yield* store.people();
}
