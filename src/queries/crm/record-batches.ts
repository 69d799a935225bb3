import type { Transaction, LockedId } from '../../database/db.ts';
import type { Company } from '../../schemas/companies.ts';
import { assignExternalIds } from '../records/references.ts';
import {
  canonicalOf,
  companyTable,
  lockMatching,
  readBatch,
  type BatchRecords,
  addEvents,
  setColumns,
  setUnchanged,
  writeItems,
  contactTable,
  findByExternalIds,
  isUnchanged,
  eventSubjectOf,
} from '../records/batch-rows.ts';
import { pendingItems, endIfAtomic, openItems, outcomesOf, withRepeats, fail } from '../records/batches.ts';
import type { Batch, Item, Outcome, ReadOutcome, LockedCompanies } from '../records/batches.ts';
import {
  blankCompany,
  companiesWritten,
  companyRow,
  findCompanies,
  lockCompanyRows,
  patchedCompany,
  type CompanyColumns,
  companyKey,
  findOrCreateNamed,
  lockCompanies,
  namedCompanyOf,
} from './companies.ts';
import { deleteCompanyItems, deleteContactItems } from './deletions.ts';
import { type DeferredWrites, lockBulk, lockNames } from '../records/deferred-writes.ts';
import { findDeclared, type Declared } from '../records/custom-fields.ts';
import { notFound } from '../../errors.ts';
import type { CompanyReference, ContactDetail } from '../../schemas/contacts.ts';
import {
  findUnknownReferences,
  blank,
  contactsWritten,
  contactRow,
  findContacts,
  lockContactRows,
  patchedContact,
  statesOf,
  type ContactColumns,
} from './contacts.ts';
import { findManualLists, setManualLists } from './list-members.ts';

const companies: BatchRecords<CompanyColumns, Company> = {
  ...companyTable,
  lock: (sql, customerId, ids, operation) =>
    lockCompanyRows(sql, customerId, ids, operation === 'delete' ? 'update' : 'no key update'),
  find: findCompanies,
};

type CompanyItem = Item<CompanyColumns>;

/**
 * Writes a batch of companies, with the same result as one call for each item. Only if two items identify the same
 * company, the later item fails. Call it before the transaction takes other locks.
 * @throws the error of the first failed item if the batch is atomic
 * @throws DomainError `unavailable` if other requests keep changing the same companies
 */
export async function writeCompanyBatch(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  deferred: DeferredWrites,
): Promise<Outcome[]> {
  await lockBulk(sql, customerId);
  return withRepeats(sql, deferred, async (attempt, own) => {
    const items = openItems<CompanyColumns>(batch, canonicalOf(batch.match));
    // Contacts create companies by their domain, too.
    if (batch.operation === 'upsert' && batch.match === 'domain') await lockNames(attempt, customerId);
    await lockMatching(attempt, customerId, companies, batch, items);
    if (batch.operation === 'delete') await deleteCompanyItems(attempt, customerId, batch, items, own);
    else {
      const bodies = pendingItems(items).map(({ body }) => body);
      const declared = await findDeclared(attempt, customerId, 'companies', bodies);
      for (const item of pendingItems(items))
        setColumns(companies, batch, item, (body, stored) =>
          withName(patchedCompany(stored ?? blankCompany, body, declared)),
        );
      await assignExternalIds(attempt, customerId, companies, batch, items);
      endIfAtomic(batch, items);
      await writeCompanies(attempt, customerId, items, own);
    }
    return outcomesOf(items);
  });
}

const withName = (columns: CompanyColumns): CompanyColumns =>
  columns.company_name === '' ? { ...columns, company_name: columns.domain! } : columns;

async function writeCompanies(
  sql: Transaction,
  customerId: string,
  items: readonly CompanyItem[],
  deferred: DeferredWrites,
): Promise<void> {
  setUnchanged(items);
  const { created, changed } = await writeItems(sql, customerId, companiesWritten, items, (columns) =>
    companyRow(customerId, columns),
  );
  deferred.count('companies', created.length);
  addEvents(deferred, 'company', { created, changed });
}

export const readCompanyBatch = (
  sql: Transaction,
  customerId: string,
  batch: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<Company>[]> => readBatch(sql, customerId, companies, batch);

type ContactItem = Item<ContactColumns>;

const contacts: BatchRecords<ContactColumns, ContactDetail> = {
  ...contactTable,
  lock: lockContactRows,
  find: findContacts,
};

/**
 * Writes a batch of contacts, with the same result as one call for each item. Only if two items identify the same
 * contact, the later item fails. Call it before the transaction takes other locks.
 * @throws the error of the first failed item if the batch is atomic
 * @throws DomainError `unavailable` if other requests keep changing the same contacts
 */
export async function writeContactBatch(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  deferred: DeferredWrites,
): Promise<Outcome[]> {
  const write = batch.operation === 'delete' ? deleteAll : writeAll;
  await lockBulk(sql, customerId);
  return withRepeats(sql, deferred, (attempt, own) => write(attempt, customerId, batch, own));
}

async function deleteAll(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  deferred: DeferredWrites,
): Promise<Outcome[]> {
  const items = openItems<ContactColumns>(batch, canonicalOf(batch.match));
  await lockMatching(sql, customerId, contacts, batch, items);
  await deleteContactItems(sql, customerId, batch, items, deferred);
  return outcomesOf(items);
}

// The steps are those of the calls for one contact, in the same order, so that an item fails with the same error.
async function writeAll(
  sql: Transaction,
  customerId: string,
  batch: Batch,
  deferred: DeferredWrites,
): Promise<Outcome[]> {
  const items = openItems<ContactColumns>(batch, canonicalOf(batch.match));
  const bodies = pendingItems(items).map(({ body }) => body);
  const [companies, declared] = await Promise.all([
    lockCompaniesOf(sql, customerId, bodies),
    findDeclared(sql, customerId, 'contacts', bodies),
  ]);
  await lockMatching(sql, customerId, contacts, batch, items);
  for (const item of pendingItems(items)) setColumnsOf(batch, item, companies, declared);
  await failUnknownReferences(sql, customerId, items);
  await assignExternalIds(sql, customerId, contacts, batch, items);
  endIfAtomic(batch, items);
  await setNewCompanies(sql, customerId, items, companies, deferred);
  await writeContacts(sql, customerId, items, deferred);
  return outcomesOf(items);
}

const companyOf = ({ body }: ContactItem): CompanyReference | null | undefined =>
  body['company'] as CompanyReference | null | undefined;

const listsOf = ({ body }: ContactItem): string[] | undefined => body['list_ids'] as string[] | undefined;

type ReferredCompanies = LockedCompanies & { byExternalId: ReadonlyMap<string, string> };

export async function lockCompaniesOf(
  sql: Transaction,
  customerId: string,
  bodies: readonly object[],
): Promise<ReferredCompanies> {
  const references = bodies.flatMap((body) => (body as { company?: CompanyReference | null }).company ?? []);
  const keys = new Set(references.flatMap((one) => namedCompanyOf(one) ?? []).map(companyKey));
  const externalIds = new Set(references.flatMap(({ external_id }) => external_id ?? []));
  const byExternalId = await findByExternalIds(sql, customerId, companyTable, [...externalIds]);
  const ids = new Set([...references.flatMap(({ id }) => id ?? []), ...byExternalId.values()]);
  return { ...(await lockCompanies(sql, customerId, { keys: [...keys], ids: [...ids] })), byExternalId };
}

const setColumnsOf = (batch: Batch, item: ContactItem, companies: ReferredCompanies, declared: Declared): void =>
  setColumns(contacts, batch, item, (body, stored) => {
    const company = companyOf(item);
    const id = companyIdOf(company, companies);
    for (const name of ['id', 'external_id'] as const)
      if (company?.[name] !== undefined && !companies.byId.has(id!)) throw notFound('company', [`/company/${name}`]);
    return patchedContact(stored ?? blank, body, id, declared);
  });

/**
 * Returns the company id for the field `company` of an item. Undefined: the item has no such field. Null: the contact
 * has no company, or its company must still be created.
 */
function companyIdOf(
  company: CompanyReference | null | undefined,
  { byKey, byExternalId }: ReferredCompanies,
): string | null | undefined {
  if (!company) return company;
  const named = namedCompanyOf(company);
  return (named ? byKey.get(companyKey(named)) : (company.id ?? byExternalId.get(company.external_id!))) ?? null;
}

async function failUnknownReferences(
  sql: Transaction,
  customerId: string,
  items: readonly ContactItem[],
): Promise<void> {
  const open = pendingItems(items);
  const bodies = open.map(({ body }) => body);
  const errors = await findUnknownReferences(sql, customerId, bodies);
  for (const [i, error] of errors.entries()) if (error) fail(open[i]!, error);
}

async function setNewCompanies(
  sql: Transaction,
  customerId: string,
  items: readonly ContactItem[],
  companies: LockedCompanies,
  deferred: DeferredWrites,
): Promise<void> {
  const missing = pendingItems(items).flatMap((item) => {
    const company = namedCompanyOf(companyOf(item) ?? {});
    return !company || companies.byKey.has(companyKey(company)) ? [] : [{ item, company }];
  });
  const wanted = missing.map(({ company }) => company);
  const ids = await findOrCreateNamed(sql, customerId, companies, wanted, deferred);
  for (const { item, company } of missing) item.columns!.company_id = ids.get(companyKey(company))!;
}

async function writeContacts(
  sql: Transaction,
  customerId: string,
  items: readonly ContactItem[],
  deferred: DeferredWrites,
): Promise<void> {
  await setUnchangedContacts(sql, customerId, items);
  const states = await statesOf(sql, customerId, changesOf(items));
  const { created, changed } = await writeItems(sql, customerId, contactsWritten, items, (columns) =>
    contactRow(customerId, columns),
  );
  const written = [...created, ...changed].map((item) => ({ item, id: idOf(item) }));
  const lists = written.flatMap(({ item, id }) => {
    const wanted = listsOf(item);
    return wanted && (item.stored || wanted.length > 0) ? [[id, wanted] as const] : [];
  });
  await setManualLists(sql, customerId, new Map(lists));
  deferred.count('contacts', created.length);
  for (const item of created) deferred.created('contact', eventSubjectOf(item));
  for (const [i, item] of changed.entries())
    deferred.updated('contact', eventSubjectOf(item), states[i]!.stored, states[i]!.columns);
}

const changesOf = (items: readonly ContactItem[]) =>
  pendingItems(items).flatMap(({ stored, columns }) => (stored ? [{ stored, columns: columns! }] : []));

const idOf = ({ outcome }: ContactItem): LockedId => (outcome as { id: LockedId }).id;

async function setUnchangedContacts(
  sql: Transaction,
  customerId: string,
  items: readonly ContactItem[],
): Promise<void> {
  const same = pendingItems(items).filter(({ stored, columns }) => stored && isUnchanged(stored, columns!));
  const listed = same.filter((item) => listsOf(item) !== undefined).map(({ stored }) => stored!.id);
  const manual = await findManualLists(sql, customerId, listed);
  for (const item of same) {
    const { id } = item.stored!;
    const wanted = listsOf(item);
    const isSame = !wanted || new Set(wanted).symmetricDifference(new Set(manual.get(id))).size === 0;
    if (isSame) item.outcome = { status: 'unchanged', id };
  }
}

export const readContactBatch = (
  sql: Transaction,
  customerId: string,
  batch: Pick<Batch, 'match' | 'items'>,
): Promise<ReadOutcome<ContactDetail>[]> => readBatch(sql, customerId, contacts, batch);
