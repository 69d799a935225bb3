import type { Caller } from './caller.ts';
import { changeCompany, createCompany, deleteCompanies, deleteCompany, writeCompanies } from './companies.ts';
import { changeContact, createContact, deleteContact, deleteContacts, writeContacts } from './contacts.ts';
import { importCompanies, importContacts, sendExportAgain } from './imports.ts';
import { addMembers, changeList, createList, deleteList, duplicateList } from './lists.ts';
import { mergeCompanies, mergeContacts } from './merges.ts';

type Operation = (caller: Caller) => Promise<void>;

/** Returns a number of items: mostly few, rarely many. */
const sizeFor = ({ random, customer }: Caller) => {
  const most = random.pick([4, 12, 40, customer.maxContacts / 4]);
  return () => 1 + random.below(most);
};

/** Deletes contacts where there are too many. */
const unlessFull =
  (create: Operation): Operation =>
  (caller) =>
    caller.model.contacts.size > caller.customer.maxContacts ? deleteContacts(caller, () => 500) : create(caller);

/** The operations, each with its frequency. */
const frequencies: Record<string, readonly [number, Operation]> = {
  createContact: [10, unlessFull(createContact)],
  changeContact: [12, changeContact],
  deleteContact: [4, deleteContact],
  writeContacts: [12, unlessFull((caller) => writeContacts(caller, sizeFor(caller)))],
  mergeContacts: [4, mergeContacts],
  deleteContacts: [3, (caller) => deleteContacts(caller, sizeFor(caller))],
  importContacts: [8, unlessFull((caller) => importContacts(caller, sizeFor(caller)()))],
  importTogether: [1, unlessFull((caller) => importContacts(caller, caller.customer.maxContacts / 2, true))],
  sendExportAgain: [2, sendExportAgain],
  createCompany: [4, createCompany],
  changeCompany: [8, changeCompany],
  deleteCompany: [2, deleteCompany],
  mergeCompanies: [3, mergeCompanies],
  writeCompanies: [4, (caller) => writeCompanies(caller, sizeFor(caller))],
  deleteCompanies: [2, deleteCompanies],
  importCompanies: [2, importCompanies],
  createList: [7, createList],
  changeList: [6, changeList],
  deleteList: [2, deleteList],
  duplicateList: [8, duplicateList],
  addMembers: [8, addMembers],
  undo: [12, (caller) => caller.changes.undo()],
};

/** The operations with their names, each as often as its frequency says. */
export const operations = Object.entries(frequencies).flatMap(([name, [frequency, operation]]) =>
  Array.from({ length: frequency }, () => [name, operation] as const),
);

/** Gives a caller of the large customer so many contacts that lists and companies are large. */
export async function startLarge(caller: Caller): Promise<void> {
  await createList(caller);
  await importContacts(caller, (caller.customer.maxContacts * 2) / 3, true);
}
