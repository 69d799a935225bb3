import { sendBatch, type BatchSize } from './batches.ts';
import { createRecord, remember, writeRecord, type Caller } from './caller.ts';
import type { Company, Json, Mode } from './model.ts';
import { companyFields, respelled } from './random-values.ts';

/** Returns a name that only this caller uses. Several companies may get the same. */
const ownName = (caller: Caller): string =>
  respelled(caller.random, `works ${caller.random.below(5)} of ${caller.tag}`);

const externalId = (caller: Caller): string => `${caller.tag}-${caller.random.below(20)}`;

function draft(caller: Caller, isPatch: boolean): Json {
  return {
    ...companyFields(caller.random, isPatch),
    ...(isPatch && !caller.chance(40) ? {} : { company_name: ownName(caller) }),
    ...(isPatch && !caller.chance(20) ? {} : { type: caller.random.pick(['customer', 'partner']) }),
    ...(caller.chance(70) ? {} : { external_id: caller.chance(20) ? null : externalId(caller) }),
  };
}

export function companyItem(caller: Caller, { operation, match }: Mode): Json {
  const company = match === null ? undefined : caller.pick(caller.model.companies);
  const item = draft(caller, operation === 'update');
  if (match === null) return item;
  if (match === 'id') return { ...item, id: company ? caller.idOf(company) : caller.unknownId() };
  return { ...item, external_id: company?.fields['external_id'] ?? externalId(caller) };
}

export const companyMode = ({ random }: Caller): Mode =>
  random.pick<Mode>([
    { operation: 'create', match: null },
    { operation: 'update', match: 'id' },
    { operation: 'update', match: 'external_id' },
    { operation: 'upsert', match: 'external_id' },
  ]);

export async function createCompany(caller: Caller): Promise<void> {
  const mode = { operation: 'create', match: null } as const;
  const body = companyItem(caller, mode);
  await createRecord(caller, '/company', body, () => caller.model.writeCompany(mode, body));
}

/** Remembers an operation on a company with its contacts: they show its name and match rules by it. */
const rememberContacts = (caller: Caller, company: Company, request: string): void =>
  remember(
    [...caller.model.contacts].filter((contact) => contact.company === company),
    request,
  );

export async function changeCompany(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.companies);
  if (!record) return;
  const body = draft(caller, true);
  const write = () => caller.model.writeCompany({ operation: 'update', match: 'id' }, { ...body, id: record.id });
  await writeRecord(caller, 'PATCH', '/company', { record, body }, write);
  rememberContacts(caller, record, `PATCH /company/${record.id} ${JSON.stringify(body)}`);
}

export async function deleteCompany(caller: Caller): Promise<void> {
  const record = caller.pick(caller.model.companies);
  if (!record) return;
  rememberContacts(caller, record, `DELETE /company/${record.id}`);
  await writeRecord(caller, 'DELETE', '/company', { record }, () => caller.model.deleteCompany(record));
}

export async function writeCompanies(caller: Caller, size: BatchSize): Promise<void> {
  const mode = companyMode(caller);
  const items = Array.from({ length: Math.min(10, size()) }, () => companyItem(caller, mode));
  await sendBatch(caller, { path: `/company/batch/${mode.operation}`, match: mode.match, items }, (item) =>
    caller.model.writeCompany(mode, item),
  );
}

export async function deleteCompanies(caller: Caller): Promise<void> {
  const items = Array.from({ length: 2 }, () => {
    const company = caller.pick(caller.model.companies);
    return { id: company ? caller.idOf(company) : caller.unknownId() };
  });
  await sendBatch(caller, { path: '/company/batch/delete', match: 'id', items }, ({ id }) => {
    const [company] = caller.model.companiesBy('id', id);
    return company ? caller.model.deleteCompany(company) : { status: 'failed', code: 'not_found' };
  });
}
