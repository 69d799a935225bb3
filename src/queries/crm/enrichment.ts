import type { Locked, Queryable, Transaction } from '../../database/db.ts';
import type { CountryCodes } from '../../files/values/country-codes.ts';
import { lookUpCompany } from '../../filters/look-up.ts';
import { constant } from '../../filters/sql.ts';
import { contactFields } from '../../schemas/contacts.ts';
import type { EnrichedField } from '../../schemas/clean-data/enrichment.ts';
import type { Prospect } from '../../schemas/prospects.ts';
import { fold } from '../../text/fold.ts';
import { RecordsChanged, type LockedCompanies } from '../records/batches.ts';
import { lockBulk } from '../records/bulk-lock.ts';
import { lockContacts } from '../records/contact-locks.ts';
import { withLastWrites } from '../records/last-writes.ts';
import { findSuccessors } from '../records/merged-records.ts';
import { findOrCreateNamed, lockCompanies, type NamedCompany } from './company-names.ts';
import { updateSynced } from './crm-sync.ts';
import { companyOf, isEmpty, toContact, type SyncedContact } from './prospect-contacts.ts';

/** A contact as enrichment reads it. A deleted company counts as none. */
export type EnrichedContact = SyncedContact & { id: string; company_name: string | null };

export interface EnrichOptions {
  fields: readonly EnrichedField[];
  /** True: also those that are not empty. */
  overwrite: boolean;
}

export interface Enrichment<Contact = EnrichedContact> {
  contact: Contact;
  prospect: Prospect;
  changed: EnrichedField[];
  /** The contact with the new values. Its company is set later. */
  filled: SyncedContact;
  /** The company that the contact gets; undefined if it keeps its own. */
  company: NamedCompany | undefined;
}

/**
 * Reads contacts, by the ids with which a job names them. A contact that was merged is read as the one that replaces it.
 * Deleted contacts are missing.
 * @throws RecordsChanged if such a contact is merged or deleted meanwhile
 */
export async function readEnriched(
  sql: Queryable,
  customerId: string,
  ids: readonly string[],
): Promise<Map<string, EnrichedContact>> {
  const found = await selectContacts(sql, customerId, ids);
  const missing = ids.filter((id) => !found.has(id));
  const successors = await findSuccessors(sql, customerId, missing);
  const merged = await selectContacts(sql, customerId, [...successors.values()]);
  for (const [id, successor] of successors) {
    const contact = merged.get(successor);
    if (!contact) throw new RecordsChanged();
    found.set(id, contact);
  }
  return found;
}

async function selectContacts(
  sql: Queryable,
  customerId: string,
  ids: readonly string[],
): Promise<Map<string, EnrichedContact>> {
  if (ids.length === 0) return new Map();
  const columns = contactFields.map((name) => `c.${name}`).join(', ');
  const rows = await sql<EnrichedContact[]>`
    select
      c.id,
      ${constant(sql, columns)},
      c.prospect_id,
      c.score,
      c.verification_status,
      c.last_verified,
      c.crm_synced_at,
      co.id as company_id,
      co.company_name
    from contacts c
    ${lookUpCompany(sql, customerId, 'c')}
    where c.customer_id = ${customerId}
      and c.id = any(${ids as string[]}::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
}

export function enrichmentOf<Contact extends EnrichedContact>(
  contact: Contact,
  prospect: Prospect,
  codeOf: CountryCodes,
  options: EnrichOptions,
): Enrichment<Contact> {
  const inCatalog = toContact(prospect, codeOf);
  const { id: _id, company_name: own, ...before } = contact;
  const offered = companyOf(prospect);
  const isNewCompany =
    offered !== undefined &&
    options.fields.includes('company') &&
    (own === null || (options.overwrite && fold(own) !== fold(offered.company_name)));
  const changed = options.fields.filter((field) =>
    field === 'company' ? isNewCompany : isFilled(field, before, inCatalog, options.overwrite),
  );
  const values = changed.flatMap((field) => (field === 'company' ? [] : [[field, inCatalog[field]] as const]));
  const filled: SyncedContact = { ...before, ...Object.fromEntries(values) };
  return {
    contact,
    prospect,
    changed,
    filled: withServiceColumns(filled, before, inCatalog),
    company: isNewCompany ? offered : undefined,
  };
}

function isFilled(
  field: Exclude<EnrichedField, 'company'>,
  before: SyncedContact,
  inCatalog: SyncedContact,
  overwrite: boolean,
): boolean {
  const [own, value] = [before[field], inCatalog[field]];
  if (isEmpty(value) || (!isEmpty(own) && !overwrite)) return false;
  return field === 'work_email'
    ? fold(String(own)) !== fold(String(value))
    : JSON.stringify(own) !== JSON.stringify(value);
}

/** Sets the columns that only the service writes. A verification is taken over with the address that it is about. */
function withServiceColumns(filled: SyncedContact, before: SyncedContact, inCatalog: SyncedContact): SyncedContact {
  const isSameAddress = filled.work_email !== '' && fold(filled.work_email) === fold(inCatalog.work_email);
  const isNewAddress = fold(filled.work_email) !== fold(before.work_email);
  const { verification_status, last_verified } =
    isSameAddress && (isNewAddress || before.verification_status === 'unverified') ? inCatalog : before;
  return {
    ...filled,
    verification_status,
    last_verified,
    prospect_id: before.prospect_id ?? inCatalog.prospect_id,
    score: before.score === 0 ? inCatalog.score : before.score,
  };
}

/** Locked contacts, and what their prospects change in them. */
export interface LockedEnrichments {
  companies: LockedCompanies;
  /** By the id with which the job names the contact. A contact that was deleted is missing. */
  enrichments: Map<string, Enrichment<Locked<EnrichedContact>>>;
}

/**
 * Locks contacts until the transaction ends, and returns what these prospects change in them.
 * @param matched by the id with which the job names the contact; different ids of different contacts
 * @throws RecordsChanged if two of them are the same contact by now, because it was merged
 */
export async function lockEnrichments(
  sql: Transaction,
  customerId: string,
  matched: ReadonlyMap<string, Prospect>,
  codeOf: CountryCodes,
  options: EnrichOptions,
): Promise<LockedEnrichments> {
  const prospects = [...matched.values()];
  const names = options.fields.includes('company')
    ? [...new Set(prospects.flatMap((prospect) => companyOf(prospect)?.company_name ?? []).map(fold))]
    : [];
  await lockBulk(sql, customerId);
  const companies = await lockCompanies(sql, customerId, { keys: names });
  const seen = await readEnriched(sql, customerId, [...matched.keys()]);
  await lockContacts(sql, customerId, [...new Set([...seen.values()].map(({ id }) => id))]);
  // A new statement, because the contacts may have changed before they were locked.
  const current = requireDistinct(await readEnriched(sql, customerId, [...matched.keys()]));
  const enrichments: LockedEnrichments['enrichments'] = new Map();
  for (const [id, prospect] of matched) {
    const contact = current.get(id);
    if (contact) enrichments.set(id, enrichmentOf(contact, prospect, codeOf, options));
  }
  return { companies, enrichments };
}

/** @throws RecordsChanged if two ids name the same contact by now */
function requireDistinct(locked: ReadonlyMap<string, EnrichedContact>): ReadonlyMap<string, Locked<EnrichedContact>> {
  if (new Set([...locked.values()].map(({ id }) => id)).size < locked.size) throw new RecordsChanged();
  return locked as ReadonlyMap<string, Locked<EnrichedContact>>;
}

/** Writes enrichments of different contacts. */
export async function writeEnrichments(
  sql: Transaction,
  customerId: string,
  { companies }: LockedEnrichments,
  chosen: readonly Enrichment<Locked<EnrichedContact>>[],
): Promise<void> {
  if (chosen.length === 0) return;
  await withLastWrites(sql, customerId, async (last) => {
    const wanted = chosen.flatMap(({ company }) => company ?? []);
    const ids = await findOrCreateNamed(sql, customerId, companies, wanted, last);
    const rows = chosen.map(({ contact, filled, company }) => ({
      id: contact.id,
      stored: contact,
      contact: company ? { ...filled, company_id: ids.get(fold(company.company_name)) ?? null } : filled,
    }));
    await updateSynced(sql, customerId, rows, last);
  });
}
