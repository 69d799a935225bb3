import type { Transaction } from '../../database/db.ts';
import type { Company, CompanyCreate, CompanyPatch } from '../../schemas/companies.ts';
import type { CompanyReference, ContactCreate, ContactDetail, ContactPatch } from '../../schemas/contacts.ts';
import {
  companyTable,
  contactTable,
  findByExternalIds,
  isUnchanged,
  eventSubjectOf,
  writeItems,
} from '../records/batch-rows.ts';
import { pendingItems, type Item, type LockedCompanies } from '../records/batches.ts';
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
import { deleteCompanies, deleteContacts } from './deletions.ts';
import { lockNames } from '../records/deferred-writes.ts';
import { findDeclared } from '../records/custom-fields.ts';
import { errorOfMissing, lockReferencesOf, type Reference } from '../records/references.ts';
import { recordWrites, writeRows, type Writing } from '../records/record-writes.ts';
import {
  blank,
  contactsWritten,
  contactRow,
  findContacts,
  hasIdentity,
  lockContactRows,
  patchedContact,
  statesOf,
  withoutIdentity,
  type ContactColumns,
} from './contacts.ts';
import { findManualLists, listReferences, setManualLists } from './list-members.ts';

export const companyWrites = recordWrites<CompanyColumns, Company, CompanyCreate, CompanyPatch>({
  ...companyTable,
  lock: (sql, customerId, ids, operation) =>
    lockCompanyRows(sql, customerId, ids, operation === 'delete' ? 'update' : 'no key update'),
  find: findCompanies,
  prepare: async (writing) => {
    const { sql, customerId, batch, items, deferred } = writing;
    // Contacts create companies by their domain, too.
    if (batch.operation === 'upsert' && batch.match === 'domain') await lockNames(sql, customerId);
    const bodies = pendingItems(items).map(({ body }) => body);
    const declared = await findDeclared(sql, customerId, 'companies', bodies);
    return {
      patched: (body, stored = blankCompany) => withName(patchedCompany(stored, body, declared)),
      write: async () => {
        const created = await writeRows(writing, 'company', companiesWritten, (columns) =>
          companyRow(customerId, columns),
        );
        deferred.count('companies', created);
      },
    };
  },
  remove: deleteCompanies,
});

const withName = (columns: CompanyColumns): CompanyColumns =>
  columns.company_name === '' ? { ...columns, company_name: columns.domain! } : columns;

type ContactItem = Item<ContactColumns>;

export const contactWrites = recordWrites<ContactColumns, ContactDetail, ContactCreate, ContactPatch>({
  ...contactTable,
  lock: lockContactRows,
  find: findContacts,
  prepare: async (writing) => {
    const { sql, customerId, items } = writing;
    const bodies = pendingItems(items).map(({ body }) => body);
    const [companies, declared] = await Promise.all([
      lockCompaniesOf(sql, customerId, bodies),
      findDeclared(sql, customerId, 'contacts', bodies),
    ]);
    const missing = await lockReferencesOf(sql, customerId, items, referencesOf);
    return {
      errorOf: (item) => errorOfMissing([...unknownCompany(companyOf(item), companies), ...missing.get(item)!]),
      patched: (body, stored, item) => {
        const columns = patchedContact(stored ?? blank, body, companyIdOf(companyOf(item), companies), declared);
        if (!stored && !hasIdentity(columns)) throw withoutIdentity();
        return columns;
      },
      write: async () => {
        await setNewCompanies(writing, companies);
        await writeContacts(writing);
      },
    };
  },
  remove: deleteContacts,
});

const referencesOf = ({ list_ids, assigned_to }: ContactPatch): Reference[] => [
  ...listReferences(list_ids),
  ...(assigned_to ? [{ noun: 'user' as const, id: assigned_to, path: '/assigned_to' }] : []),
];

const companyOf = ({ body }: ContactItem): CompanyReference | null | undefined =>
  body['company'] as CompanyReference | null | undefined;

const listsOf = ({ body }: ContactItem): string[] | undefined => body['list_ids'] as string[] | undefined;

type ReferredCompanies = LockedCompanies & { byExternalId: ReadonlyMap<string, string> };

async function lockCompaniesOf(
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

function unknownCompany(company: CompanyReference | null | undefined, companies: ReferredCompanies) {
  const name = (['id', 'external_id'] as const).find((one) => company?.[one] !== undefined);
  const isKnown = name === undefined || companies.byId.has(companyIdOf(company, companies)!);
  return isKnown ? [] : [{ noun: 'company', path: `/company/${name}` }];
}

/**
 * Returns the id of the company that an item names for a contact. Undefined: the item says nothing of a company. Null:
 * it says that the contact has none, or the company does not exist yet.
 */
function companyIdOf(company: CompanyReference | null | undefined, { byKey, byExternalId }: ReferredCompanies) {
  if (!company) return company;
  const named = namedCompanyOf(company);
  return (named ? byKey.get(companyKey(named)) : (company.id ?? byExternalId.get(company.external_id!))) ?? null;
}

async function setNewCompanies(
  { sql, customerId, items, deferred }: Writing<ContactColumns>,
  companies: LockedCompanies,
): Promise<void> {
  const missing = pendingItems(items).flatMap((item) => {
    const company = namedCompanyOf(companyOf(item) ?? {});
    return !company || companies.byKey.has(companyKey(company)) ? [] : [{ item, company }];
  });
  const wanted = missing.map(({ company }) => company);
  const ids = await findOrCreateNamed(sql, customerId, companies, wanted, deferred);
  for (const { item, company } of missing) item.columns!.company_id = ids.get(companyKey(company))!;
}

async function writeContacts({ sql, customerId, items, deferred }: Writing<ContactColumns>): Promise<void> {
  await setUnchangedContacts(sql, customerId, items);
  const states = await statesOf(sql, customerId, changesOf(items));
  const { created, changed } = await writeItems(sql, customerId, contactsWritten, items, (columns) =>
    contactRow(customerId, columns),
  );
  const lists = items.flatMap((item) => {
    const { outcome, stored } = item;
    const wanted = listsOf(item);
    const isWritten = outcome?.status === 'created' || outcome?.status === 'updated';
    return isWritten && wanted && (stored || wanted.length > 0) ? [[outcome.id, wanted] as const] : [];
  });
  await setManualLists(sql, customerId, new Map(lists));
  deferred.count('contacts', created.length);
  for (const item of created) deferred.created('contact', eventSubjectOf(item));
  for (const [i, item] of changed.entries())
    deferred.updated('contact', eventSubjectOf(item), states[i]!.stored, states[i]!.columns);
}

const changesOf = (items: readonly ContactItem[]) =>
  pendingItems(items).flatMap(({ stored, columns }) => (stored ? [{ stored, columns: columns! }] : []));

async function setUnchangedContacts(sql: Transaction, customerId: string, items: readonly ContactItem[]) {
  const same = pendingItems(items).filter(({ stored, columns }) => stored && isUnchanged(stored, columns!));
  const listed = same.filter((item) => listsOf(item) !== undefined).map(({ stored }) => stored!.id);
  const manual = await findManualLists(sql, customerId, listed);
  for (const item of same) {
    const { id } = item.stored!;
    const wanted = listsOf(item);
    const isSame = !wanted || new Set(wanted).symmetricDifference(new Set(manual.get(id))).size === 0;
    item.outcome = { status: isSame ? 'unchanged' : 'updated', id };
  }
}
