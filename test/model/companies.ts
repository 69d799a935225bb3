import { sendBatch, type BatchSize } from './batches.ts';
import { expectStatus, ifMatch, remember, statusOf, type Caller } from './caller.ts';
import type { Company, Json, Mode } from './model.ts';
import { companyFields, respelled } from './random-values.ts';
import { checkCompany } from './shown.ts';

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
  const answer = await caller.client.create('/company', body);
  const outcome = caller.model.writeCompany(mode, body);
  expectStatus(answer, statusOf(outcome), `POST /company ${JSON.stringify(body)}`);
  if (outcome.status === 'failed') return;
  outcome.record.id = answer.body.data.id;
  remember([outcome.record], `created ${JSON.stringify(body)}`);
}

/** Remembers an operation on a company with its contacts, too: they show its name and match rules by it. */
const rememberCompany = (caller: Caller, company: Company, request: string): void =>
  remember([company, ...[...caller.model.contacts].filter((contact) => contact.company === company)], request);

export async function changeCompany(caller: Caller): Promise<void> {
  const company = caller.pick(caller.model.companies);
  if (!company) return;
  const path = `/company/${caller.idOf(company)}`;
  const { headers, isStale } = await ifMatch(caller, path);
  const body = isStale ? { size: 'never' } : draft(caller, true);
  const answer = await caller.client.send('PATCH', path, body, headers);
  const request = `PATCH ${path} ${JSON.stringify(body)}`;
  if (isStale) return expectStatus(answer, 412, request, [company]);
  const outcome = caller.model.writeCompany({ operation: 'update', match: 'id' }, { ...body, id: company.id });
  expectStatus(answer, statusOf(outcome), request, [company]);
  rememberCompany(caller, company, request);
}

export async function deleteCompany(caller: Caller): Promise<void> {
  const company = caller.pick(caller.model.companies);
  if (!company) return;
  const path = `/company/${caller.idOf(company)}`;
  const { headers, isStale } = await ifMatch(caller, path);
  const answer = await caller.client.send('DELETE', path, undefined, headers);
  expectStatus(answer, isStale ? 412 : 200, `DELETE ${path}`, [company]);
  if (isStale) return;
  rememberCompany(caller, company, `DELETE ${path}`);
  caller.model.deleteCompany(company);
}

export async function writeCompanies(caller: Caller, size: BatchSize): Promise<void> {
  const mode = companyMode(caller);
  const items = Array.from({ length: Math.min(10, size()) }, () => companyItem(caller, mode));
  await sendBatch(caller, { path: `/company/batch/${mode.operation}`, match: mode.match, items }, (item) =>
    caller.model.writeCompany(mode, item),
  );
}

export async function readOrDeleteCompanies(caller: Caller): Promise<void> {
  const isRead = caller.chance(50);
  const items = Array.from({ length: 2 }, () => {
    const company = caller.pick(caller.model.companies);
    return { id: company ? caller.idOf(company) : caller.unknownId() };
  });
  const path = `/company/batch/${isRead ? 'read' : 'delete'}`;
  await sendBatch<Company>(
    caller,
    { path, match: 'id', items, ...(isRead ? { check: checkCompany } : {}) },
    ({ id }) => {
      const [company] = caller.model.companiesBy('id', id);
      if (!company) return { status: 'failed', code: 'not_found' };
      return isRead ? { status: 'found', record: company } : caller.model.deleteCompany(company);
    },
  );
}
