import type { Transaction } from '../database/db.ts';
import { contactSource } from '../filters/columns.ts';
import type { SearchColumns } from '../filters/search-columns.ts';
import { constant } from '../filters/sql.ts';
import { contactFields } from '../schemas/contacts.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { fold } from '../text/fold.ts';
import { createCompanies, lockCompanies, type LockedCompanies, type NamedCompany } from './company-names.ts';
import { lockedInOrder } from './contact-locks.ts';
import { CountChanges } from './counters.ts';
import { countryCodes } from './country-codes.ts';
import { refreshMembers } from './list-members.ts';
import { lockAndReadRules } from './list-rules.ts';
import { companyOf, fillIn, syncedColumns, toContact, toRow, type SyncedContact } from './prospect-contacts.ts';

/** A contact to insert or update, made from one or more prospects of a batch. */
interface Slot {
  /** Id of the contact; undefined until a new contact is inserted. */
  id: string | undefined;
  contact: SyncedContact;
}

/**
 * Creates contacts from prospects, with their companies and list memberships. If a contact with the same prospect id or
 * the same work email already exists, updates this contact instead.
 * @returns a map from prospect id to contact id; prospects with the same email have the same contact
 */
export async function syncProspects(
  sql: Transaction,
  customerId: string,
  prospects: readonly Prospect[],
): Promise<Map<string, string>> {
  // Locks are taken in the order that all writers use (value-locks.ts).
  if (prospects.length === 0) return new Map();
  const codeOf = await countryCodes();
  const given = prospects.map((prospect) => toContact(prospect, codeOf));
  const rules = await lockAndReadRules(sql, customerId);
  const locked = await lockForSync(sql, customerId, prospects, given);
  const found = await findContacts(sql, customerId, given);
  const counts = new CountChanges();
  const companies = await companiesOf(sql, customerId, { prospects, found, locked }, counts);
  const batch = new Batch(await lockFound(sql, customerId, found));
  const slots = given.map((contact, i) => batch.add({ ...contact, company_id: companies[i] ?? null }));
  await write(sql, customerId, [...new Set(slots)], counts);
  await refreshMembers(sql, customerId, rules, [...new Set(slots.map(({ id }) => id!))], counts);
  return new Map(prospects.map(({ _id }, i) => [_id, slots[i]!.id!]));
}

/**
 * The contacts for a batch of prospects. Prospects with the same id or work email as an earlier prospect, or as a
 * stored contact, get the same contact.
 */
class Batch {
  readonly #byProspect = new Map<string, Slot>();
  readonly #byEmail = new Map<string, Slot>();

  /**
   * Creates a batch.
   * @param stored the existing contacts that may match prospects of the batch, the oldest first
   */
  constructor(stored: readonly Slot[]) {
    for (const slot of stored) this.#note(slot);
  }

  add(given: SyncedContact): Slot {
    const slot = this.#byProspect.get(given.prospect_id!) ?? this.#byEmail.get(fold(given.work_email));
    const added = slot ?? { id: undefined, contact: given };
    added.contact = fillIn(added.contact, given);
    this.#note(added);
    return added;
  }

  #note(slot: Slot): void {
    const { prospect_id, work_email } = slot.contact;
    const email = fold(work_email);
    if (prospect_id !== null && !this.#byProspect.has(prospect_id)) this.#byProspect.set(prospect_id, slot);
    if (email !== '' && !this.#byEmail.has(email)) this.#byEmail.set(email, slot);
  }
}

/** A stored contact that may match a prospect of the batch. Its row is not locked yet. */
interface Found {
  id: string;
  /** The prospect id by which the contact was found; null if it was found by `email`. */
  prospect_id: string | null;
  email: string | null;
  has_company: boolean;
}

/**
 * Locks prospect ids, emails and companies of a batch. Until the transaction ends, other transactions cannot create
 * contacts with these ids or emails.
 */
function lockForSync(
  sql: Transaction,
  customerId: string,
  prospects: readonly Prospect[],
  given: readonly SyncedContact[],
): Promise<LockedCompanies> {
  const companies = prospects.map(companyOf).filter((company) => company !== undefined);
  const names = [...new Set(companies.map(({ company_name }) => fold(company_name)))];
  const values = [
    ...prospects.map(({ _id }) => ({ kind: 'prospect_id' as const, value: _id })),
    ...emailsOf(given).map((value) => ({ kind: 'work_email' as const, value })),
  ];
  return lockCompanies(sql, customerId, { names, values });
}

/** Returns the distinct work emails of contacts, in lower case. */
const emailsOf = (given: readonly SyncedContact[]): string[] =>
  [...new Set(given.map(({ work_email }) => fold(work_email)))].filter((email) => email !== '');

/** Finds the stored contacts that have the same prospect id or work email as one of the `given` contacts. */
function findContacts(sql: Transaction, customerId: string, given: readonly SyncedContact[]): Promise<Found[]> {
  const ids = given.map(({ prospect_id }) => prospect_id!);
  return sql<Found[]>`
    select c.id, c.prospect_id, null as email, co.id is not null as has_company
    from ${constant(sql, contactSource.from)}
    where c.customer_id = ${customerId}
      and c.prospect_id is not null
      and c.prospect_id = any(${ids}::uuid[])
    union all
    select oldest.id, null, wanted.email, co.id is not null
    from unnest(${emailsOf(given)}::text[]) as wanted (email)
    cross join lateral (
      select id, company_id
      from contacts
      where customer_id = ${customerId}
        and (folded ->> 'work_email') collate "C" = wanted.email
      order by id
      limit 1
    ) oldest
    left join companies co on co.customer_id = ${customerId} and co.id = oldest.company_id and co.deleted_at is null`;
}

/**
 * Finds or creates the companies of the prospects. Returns one company id for each prospect. The id is undefined for a
 * prospect without a company name. The id is also undefined if the contact of the prospect already has a company, or
 * gets a company from an earlier prospect.
 */
async function companiesOf(
  sql: Transaction,
  customerId: string,
  { prospects, found, locked }: { prospects: readonly Prospect[]; found: readonly Found[]; locked: LockedCompanies },
  counts: CountChanges,
): Promise<(string | null | undefined)[]> {
  // Prospect ids and emails of contacts that have a company, or get one from an earlier prospect of the batch.
  const settled = new Set(
    found.filter((contact) => contact.has_company).map((contact) => contact.prospect_id ?? contact.email),
  );
  const companies = prospects.map((prospect) => {
    const email = fold(prospect.work_email);
    if (settled.has(prospect._id) || settled.has(email)) return undefined;
    const company = companyOf(prospect);
    if (company && email !== '') settled.add(email);
    return company;
  });
  const missing = companies.filter((company) => company && !locked.byName.has(fold(company.company_name)));
  const created = await createCompanies(sql, customerId, missing as NamedCompany[], counts);
  const ids = new Map([...locked.byName, ...created]);
  return companies.map((company) => company && ids.get(fold(company.company_name)));
}

/** Locks the found contacts until the transaction ends, and returns their current values, the oldest contact first. */
async function lockFound(sql: Transaction, customerId: string, found: readonly Found[]): Promise<Slot[]> {
  if (found.length === 0) return [];
  const contacts = await sql<(SyncedContact & { id: string })[]>`
    select
      id,
      ${constant(sql, contactFields.join(', '))},
      prospect_id,
      score,
      verification_status,
      last_verified,
      (
        select co.id
        from companies co
        where co.customer_id = ${customerId}
          and co.id = contacts.company_id
          and co.deleted_at is null
      ) as company_id
    from contacts
    where customer_id = ${customerId}
      and id = any(${found.map(({ id }) => id)}::uuid[])
    ${lockedInOrder(sql)}`;
  return contacts.map(({ id, ...contact }) => ({ id, contact }));
}

/** The columns of a contact that searches use, with their SQL types. */
const searchColumns = { folded: 'jsonb', terms: 'integer[]' } as const satisfies Record<keyof SearchColumns, string>;

const columns = Object.keys({ ...syncedColumns, ...searchColumns }).join(', ');
const typed = Object.entries({ ...syncedColumns, ...searchColumns }).map(([column, type]) => `${column} ${type}`);
const updates = Object.keys({ ...syncedColumns, ...searchColumns }).map((column) => `${column} = given.${column}`);

/** Updates the contacts that already exist. Inserts the new contacts, and saves their ids in `slots`. */
async function write(
  sql: Transaction,
  customerId: string,
  slots: readonly Slot[],
  counts: CountChanges,
): Promise<void> {
  const [stored, fresh] = [slots.filter(({ id }) => id !== undefined), slots.filter(({ id }) => id === undefined)];
  await updateContacts(sql, customerId, stored);
  const inserted = await insertContacts(sql, customerId, fresh);
  for (const slot of fresh) slot.id = inserted.get(slot.contact.prospect_id!)!;
  counts.add('contacts', fresh.length);
}

async function updateContacts(sql: Transaction, customerId: string, stored: readonly Slot[]): Promise<void> {
  if (stored.length === 0) return;
  const rows = stored.map(({ id, contact }) => ({ id: id!, ...toRow(customerId, contact) }));
  await sql`
    update contacts c
    set ${constant(sql, updates.join(', '))}, crm_synced_at = (select clock_timestamp()), updated_at = (select clock_timestamp())
    from jsonb_to_recordset(${sql.json(rows)}) as given (id uuid, ${constant(sql, typed.join(', '))})
    where c.customer_id = ${customerId}
      and c.id = any(${rows.map(({ id }) => id)}::uuid[]) -- else it may go through all the customer has
      and c.id = given.id`;
}

/** Inserts contacts. Returns a map from prospect id to contact id. */
async function insertContacts(
  sql: Transaction,
  customerId: string,
  fresh: readonly Slot[],
): Promise<Map<string, string>> {
  if (fresh.length === 0) return new Map();
  const rows = fresh.map(({ contact }) => toRow(customerId, contact));
  const inserted = await sql<{ id: string; prospect_id: string }[]>`
    insert into contacts (customer_id, ${constant(sql, columns)}, crm_synced_at)
    select ${customerId}, ${constant(sql, columns)}, (select clock_timestamp())
    from jsonb_to_recordset(${sql.json(rows)}) as given (${constant(sql, typed.join(', '))})
    returning id, prospect_id`;
  return new Map(inserted.map(({ id, prospect_id }) => [prospect_id, id]));
}
