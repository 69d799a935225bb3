import type { Sql } from '../../database/db.ts';
import { spellingsOf, valuesOf, type Identifier } from './identifiers.ts';
import { profileKey } from '../../text/profiles.ts';

/** A person whom a customer has unlocked. */
export interface UnlockOfPerson {
  customer_id: string;
  prospect_id: string;
  unlocked_at: string;
}

/** A contact of a customer that came from the person, or has one of the person's addresses or profiles. */
export interface ContactOfPerson {
  customer_id: string;
  id: string;
  prospect_id: string | null;
  removal_requested_at: string | null;
}

/** How many other rows of a customer contain the text. */
export interface Mentions {
  customer_id: string;
  where: 'verifications' | 'import failures' | 'users';
  count: number;
}

export const listUnlocksOf = (sql: Sql, prospectIds: readonly string[]): Promise<UnlockOfPerson[]> => sql<
  UnlockOfPerson[]
>`
  select customer_id, prospect_id, unlocked_at
  from unlocks
  where prospect_id = any(${prospectIds as string[]}::uuid[])
  order by unlocked_at, customer_id`;

/** Returns the ids of the contacts that replace merged contacts which came from these prospects. */
export const listMergedContactsOf = async (sql: Sql, prospectIds: readonly string[]): Promise<string[]> => {
  const rows = await sql<{ merged_into: string }[]>`
    select merged_into
    from merged_records
    where prospect_id = any(${prospectIds as string[]}::uuid[])`;
  return rows.map(({ merged_into }) => merged_into);
};

/**
 * Returns contacts that came from these people, or have one of their addresses or profiles, and those with these ids.
 * Reads all contacts of all customers.
 */
export async function listContactsOf(
  sql: Sql,
  identifiers: readonly Identifier[],
  ids: readonly string[] = [],
): Promise<ContactOfPerson[]> {
  const [prospectIds, emails, profiles] = [
    valuesOf(identifiers, 'id'),
    identifiers.filter(({ kind }) => kind === 'email').flatMap(spellingsOf),
    valuesOf(identifiers, 'profnet_url'),
  ];
  const spellings = identifiers.filter(({ kind }) => kind === 'profnet_url').flatMap(spellingsOf);
  const rows = await sql<(ContactOfPerson & { is_found: boolean; urls: string[] })[]>`
    select customer_id, id, prospect_id, removal_requested_at, is_found, urls
    from (
      select
        customer_id,
        id,
        prospect_id,
        removal_requested_at,
        array_remove(array[profnet_url, social1_url, social2_url], null) as urls,
        id = any(${ids as string[]}::uuid[])
          or coalesce(prospect_id = any(${prospectIds}::uuid[]), false)
          or lower(work_email) = any(${emails}::text[])
          or coalesce(lower(personal_email) = any(${emails}::text[]), false)
          or exists (select 1 from unnest(other_emails) as other where lower(other) = any(${emails}::text[]))
          as is_found
      from contacts
    ) c
    where is_found
      or exists (
        select 1
        from unnest(${spellings}::text[]) as profile
        where position(profile in lower(array_to_string(urls, ' '))) > 0
      )
    order by customer_id, id`;
  // The profile of another person can begin with the same text.
  return rows
    .filter(({ is_found, urls }) => is_found || urls.some((url) => profiles.includes(profileKey(url) ?? '')))
    .map(({ is_found: _found, urls: _urls, ...contact }) => contact);
}

/**
 * Counts rows that contain one of the texts, which are in lower case: what customers gave to jobs and imports. A job's
 * inputs are there before its results, and are deleted with them.
 */
export const countMentions = async (sql: Sql, texts: readonly string[]): Promise<Mentions[]> =>
  sql<Mentions[]>`
    select customer_id, 'verifications' as where, count(*) as count
    from job_inputs
    where lower(btrim(item)) = any(${texts as string[]}::text[])
    group by customer_id
    union all
    select customer_id, 'import failures', count(*)
    from import_rows
    where exists (select 1 from unnest(${texts as string[]}::text[]) as wanted where position(wanted in lower(cells::text)) > 0)
    group by customer_id
    union all
    select customer_id, 'users', count(*)
    from users
    where lower(email) = any(${texts as string[]}::text[])
    group by customer_id
    order by 1, 2`;

/** Returns customers' names by id. */
export async function namesOfCustomers(sql: Sql, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; business_name: string }[]>`
    select id, business_name
    from customers
    where id = any(${ids as string[]}::uuid[])`;
  return new Map(rows.map(({ id, business_name }) => [id, business_name]));
}
