import { expectStatus, remember, statusOf, type Caller } from './caller.ts';
import type { Company, Contact, Json, Outcome } from './model.ts';
import { someOf } from './random-values.ts';

interface Recorded {
  id: string | undefined;
  history: string[];
}

/** Sends a merge of random records of the caller, and applies it to the model. */
async function merge<T extends Recorded>(
  caller: Caller,
  path: string,
  records: readonly T[],
  names: readonly string[],
  apply: (kept: T, merged: T[], chosen: ReadonlyMap<string, T>) => Outcome<T>,
): Promise<void> {
  const [kept, ...merged] = someOf(caller.random, records, 5);
  if (!kept || merged.length === 0) return;
  const chosen = new Map(
    names.flatMap((name) => (caller.chance(20) ? [[name, caller.random.pick([kept, ...merged])] as const] : [])),
  );
  const fields = Object.fromEntries(Array.from(chosen, ([name, record]) => [name, caller.idOf(record)]));
  const body: Json = { id: caller.idOf(kept), merge_ids: merged.map((record) => caller.idOf(record)), fields };
  const unknown = caller.chance(5) ? { ...body, merge_ids: [caller.unknownId()] } : body;
  const answer = await caller.client.send('POST', path, unknown);
  const request = `POST ${path} ${JSON.stringify(unknown)}`;
  if (unknown !== body) return expectStatus(answer, chosen.size > 0 ? answer.status : 404, request, [kept]);
  const outcome = apply(kept, merged, chosen);
  expectStatus(answer, statusOf(outcome), request, [kept, ...merged]);
  remember([kept, ...merged], request);
}

const contactNames = ['job_title', 'gender', 'work_email', 'external_id', 'company', 'custom_fields', 'other_emails'];
const companyNames = ['industry', 'company_name', 'external_id', 'custom_fields', 'location_country'];

export const mergeContacts = (caller: Caller): Promise<void> =>
  merge<Contact>(caller, '/contacts/merge', [...caller.model.contacts], contactNames, (...given) =>
    caller.model.mergeContacts(...given),
  );

export const mergeCompanies = (caller: Caller): Promise<void> =>
  merge<Company>(caller, '/company/merge', [...caller.model.companies], companyNames, (...given) =>
    caller.model.mergeCompanies(...given),
  );
