import { sendBatch, type BatchSize } from './batches.ts';
import { bindIds, createRecord, writeRecord, type Caller } from './caller.ts';
import type { Contact, Json, Match, Mode } from './model.ts';
import { anyCase, contactFields, namedCompany, someOf } from './random-values.ts';

/** Returns the `company` of a contact's body: by id, by name, none, or absent. */
function company(caller: Caller, isPatch: boolean): Json {
  const own = caller.pick(caller.model.companies);
  if (caller.chance(25)) return {};
  if (own && caller.chance(25)) return { company: { id: caller.idOf(own) } };
  if (caller.chance(15)) return { company: isPatch && caller.chance(50) ? null : {} };
  return { company: namedCompany(caller.random, caller.tag) };
}

/** Returns an `external_id`. It may be new, null, or one that another record of the caller has. */
function externalId(caller: Caller): Json {
  if (caller.chance(60)) return {};
  const taken = caller.pick(caller.model.contacts)?.fields['external_id'];
  if (caller.chance(30) && typeof taken === 'string') return { external_id: taken };
  return { external_id: caller.chance(20) ? null : `${caller.tag}-${caller.random.below(60)}` };
}

const workEmail = ({ random, tag }: Caller): string => anyCase(random, `ada${random.below(400)}@${tag}.example`);

/** Returns ids of lists. The same list may be there twice, in upper and lower case. */
const listIds = (caller: Caller): string[] =>
  someOf(caller.random, [...caller.model.lists], 3).flatMap((list) =>
    caller.chance(10) ? [list.id!, list.id!.toUpperCase()] : [caller.idOf(list)],
  );

/** Returns a random item for a contact, without the member that names it. */
function draft(caller: Caller, isPatch: boolean): Json {
  const { random } = caller;
  const user = anyCase(random, random.pick(caller.customer.users));
  return {
    ...contactFields(random, isPatch),
    ...company(caller, isPatch),
    ...externalId(caller),
    ...(isPatch && !caller.chance(40) ? {} : { last_name: caller.mark() }),
    ...(isPatch && !caller.chance(20) ? {} : { work_email: workEmail(caller) }),
    ...(caller.chance(70) ? {} : { assigned_to: isPatch && caller.chance(40) ? null : user }),
    ...(caller.chance(70) ? {} : { list_ids: listIds(caller) }),
  };
}

/** Returns the item with one fault: a wrong value, or the id of a record that the caller's customer does not have. */
function spoilt(caller: Caller, { external_id: _external, ...item }: Json): Json {
  const id = caller.unknownId();
  return caller.random.pick<Json>([
    { ...item, company: { id } },
    { ...item, list_ids: [id] },
    { ...item, work_email: 'nobody' },
  ]);
}

/** Returns an item that creates a contact, or changes one that `match` names. */
export function contactItem(caller: Caller, { operation, match }: Mode): Json {
  const named = match === null ? undefined : caller.pick(caller.model.contacts);
  const isNew = !named || caller.chance(operation === 'upsert' ? 50 : 5);
  const item = draft(caller, operation === 'update');
  const spoiling = caller.chance(3) ? spoilt(caller, item) : item;
  if (match === null) return spoiling.phone_numbers ? spoiling : { phone_numbers: [], ...spoiling };
  const { [match]: _, ...rest } = spoiling;
  // An upsert that finds its contact may change nothing. Last names stay different.
  const isFound = !isNew && named.fields[match] !== null;
  const kept = operation === 'upsert' && isFound && caller.chance(60) ? { last_name: named.fields['last_name'] } : {};
  const needed = operation === 'upsert' && !isFound && rest['phone_numbers'] === undefined ? { phone_numbers: [] } : {};
  const value = isNew ? newValue(caller, match) : valueOf(caller, named, match);
  return { ...rest, ...needed, ...kept, [match]: value };
}

const newValue = (caller: Caller, match: Match): string => {
  if (match === 'id') return caller.unknownId();
  return match === 'work_email' ? workEmail(caller) : `${caller.tag}-${caller.random.below(60)}`;
};

const valueOf = (caller: Caller, contact: Contact, match: Match): string => {
  if (match === 'id') return caller.idOf(contact);
  const value = contact.fields[match] as string | null;
  if (value === null) return newValue(caller, match);
  return match === 'work_email' ? anyCase(caller.random, value) : value;
};

/** Returns the mode of a batch or import of contacts. */
export function contactMode({ random }: Caller): Mode {
  return random.pick<Mode>([
    { operation: 'create', match: null },
    { operation: 'update', match: 'id' },
    { operation: 'update', match: 'external_id' },
    { operation: 'update', match: 'work_email' },
    { operation: 'upsert', match: 'external_id' },
    { operation: 'upsert', match: 'work_email' },
  ]);
}

export async function createContact(caller: Caller): Promise<void> {
  const mode = { operation: 'create', match: null } as const;
  const body = contactItem(caller, mode);
  await createRecord(caller, '/contacts', body, () => caller.model.writeContact(mode, body));
  await bindIds(caller);
}

export async function changeContact(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.contacts);
  if (!record) return;
  const mode = { operation: 'update', match: 'id' } as const;
  const { id: _id, ...body } = contactItem(caller, mode);
  const write = () => caller.model.writeContact(mode, { ...body, id: record.id });
  await writeRecord(caller, 'PATCH', '/contacts', { record, body }, write);
  await bindIds(caller);
}

export async function deleteContact(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.contacts);
  if (record) await writeRecord(caller, 'DELETE', '/contacts', { record }, () => caller.model.deleteContact(record));
}

export async function writeContacts(caller: Caller, size: BatchSize): Promise<void> {
  const mode = contactMode(caller);
  const items = Array.from({ length: size() }, () => contactItem(caller, mode));
  await sendBatch(caller, { path: `/contacts/batch/${mode.operation}`, match: mode.match, items }, (item) =>
    caller.model.writeContact(mode, item),
  );
  await bindIds(caller);
}

const named = (caller: Caller, match: Match, size: number): Json[] =>
  Array.from({ length: size }, () => {
    const contact = caller.pick(caller.model.contacts);
    const value = contact && !caller.chance(5) ? valueOf(caller, contact, match) : newValue(caller, match);
    return { [match]: value };
  });

export async function deleteContacts(caller: Caller, size: BatchSize): Promise<void> {
  const match = caller.random.pick(['id', 'external_id', 'work_email'] as const);
  const items = named(caller, match, size());
  await sendBatch(caller, { path: '/contacts/batch/delete', match, items }, (item) => {
    const [contact, ...others] = caller.model.contactsBy(match, item[match]);
    if (!contact) return { status: 'failed', code: 'not_found' };
    return others.length > 0 ? { status: 'failed', code: 'conflict' } : caller.model.deleteContact(contact);
  });
}
