import type { Sql, Transaction } from '../../database/db.ts';
import { lowestId } from '../../database/wire-types.ts';
import type { Prospect } from '../../schemas/prospects.ts';

/** Stores people who are suppressed, but not erased, in place of the catalog. Replaces those with the same id. */
export async function holdPeople(sql: Transaction, people: readonly Prospect[]): Promise<void> {
  await sql`
    insert into held_people (prospect_id, person)
    select (person ->> '_id')::uuid, person
    from jsonb_array_elements(${sql.json(people)}) as given (person)
    order by 1
    on conflict (prospect_id) do update set person = excluded.person`;
}

/** Yields all held people, in batches, in the order of their ids. */
export async function* readHeldPeople(sql: Sql): AsyncGenerator<Prospect[]> {
  for (let after = lowestId; ;) {
    const rows = await sql<{ person: Prospect }[]>`
      select person
      from held_people
      where prospect_id > ${after}
      order by prospect_id
      limit 1000`;
    if (rows.length === 0) return;
    yield rows.map(({ person }) => person);
    after = rows.at(-1)!.person._id;
  }
}

export async function deleteHeldPeople(sql: Transaction, ids: readonly string[]): Promise<void> {
  await sql`delete from held_people where prospect_id = any(${ids as string[]}::uuid[])`;
}
