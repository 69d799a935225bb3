import type { Sql } from '../../database/db.ts';

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

/** What contacts are found by. Texts are in lower case. */
export interface ContactTraits {
  /** Ids of contacts. */
  ids: readonly string[];
  prospectIds: readonly string[];
  emails: readonly string[];
  profiles: readonly string[];
}

/** Returns the ids of the contacts that replace merged contacts which came from these prospects. */
export const listMergedContactsOf = async (sql: Sql, prospectIds: readonly string[]): Promise<string[]> => {
  const rows = await sql<{ merged_into: string }[]>`
    select merged_into
    from merged_records
    where prospect_id = any(${prospectIds as string[]}::uuid[])`;
  return rows.map(({ merged_into }) => merged_into);
};

/** Reads all contacts of all customers. */
export const listContactsOf = (
  sql: Sql,
  { ids, prospectIds, emails, profiles }: ContactTraits,
): Promise<ContactOfPerson[]> => sql<ContactOfPerson[]>`
  select customer_id, id, prospect_id, removal_requested_at
  from contacts c
  where id = any(${ids as string[]}::uuid[])
    or prospect_id = any(${prospectIds as string[]}::uuid[])
    or lower(work_email) = any(${emails as string[]}::text[])
    or lower(personal_email) = any(${emails as string[]}::text[])
    or exists (select 1 from unnest(other_emails) as other where lower(other) = any(${emails as string[]}::text[]))
    or exists (
      select 1
      from unnest(${profiles as string[]}::text[]) as profile
      where position(profile in lower(concat_ws(' ', profnet_url, social1_url, social2_url))) > 0
    )
  order by customer_id, id`;

/** Counts rows that contain one of the texts, which are in lower case: what customers gave to jobs and imports. */
export const countMentions = async (sql: Sql, texts: readonly string[]): Promise<Mentions[]> =>
  sql<Mentions[]>`
    select customer_id, 'verifications' as where, count(*) as count
    from job_results
    where lower(item) = any(${texts as string[]}::text[])
    group by customer_id
    union all
    select customer_id, 'import failures', count(*)
    from import_errors
    where exists (select 1 from unnest(${texts as string[]}::text[]) as wanted where position(wanted in lower(lines)) > 0)
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
