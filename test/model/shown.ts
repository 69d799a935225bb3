import { isDeepStrictEqual } from 'node:util';
import { plainFold } from '../queries/memberships/recount.ts';
import { describe } from './caller.ts';
import { Difference } from './client.ts';
import type { Company, Contact, Json } from './model.ts';

/** Comparison of records as responses show them with records of the model. */

/** Throws if a record that was read differs from the model. Members that the model lacks are not compared. */
function check(noun: string, record: Parameters<typeof describe>[0], shown: Json, expected: Json): void {
  const wrong = Object.entries(expected).filter(([name, value]) => !isDeepStrictEqual(shown[name], value));
  if (wrong.length === 0) return;
  const told = wrong.map(
    ([name, value]) => `${name} is ${JSON.stringify(shown[name])} instead of ${JSON.stringify(value)}`,
  );
  throw new Difference(`A ${noun} differs: ${told.join(', ')}\n  ${describe(record)}`);
}

/** Checks a contact. `list_ids` is compared where the response has it. */
export function checkContact(contact: Contact, shown: Json): void {
  const { company, fields, lists, id } = contact;
  const shownCompany = shown['company'] as { id: string | null; company_name: string; industry: string };
  if (company?.isShared && shownCompany.id !== null) company.id ??= shownCompany.id;
  // Who first named a shared company decides how its name is written.
  const name = company?.isShared ? plainFold(shownCompany.company_name) : shownCompany.company_name;
  check(
    'contact',
    contact,
    { ...shown, company: { ...shownCompany, company_name: name } },
    {
      id,
      ...fields,
      company: {
        id: company?.id ?? null,
        external_id: company?.fields['external_id'] ?? null,
        company_name: company?.isShared
          ? plainFold(company.fields['company_name'])
          : (company?.fields['company_name'] ?? ''),
        industry: company?.fields['industry'] ?? '',
      },
      score: 0,
      verification_status: 'unverified',
      crm_synced_at: null,
      removal_requested_at: null,
      last_verified: shown['created_at'],
      ...('list_ids' in shown ? { list_ids: [...lists].map(({ id: listId }) => listId!).toSorted() } : {}),
    },
  );
}

export function checkCompany(company: Company, shown: Json): void {
  const { company_name, ...fields } = company.fields;
  const name = company.isShared ? { folded: plainFold(company_name) } : { company_name };
  const expected = { id: company.id, ...fields, ...name, score: 0, last_verified: shown['created_at'] };
  check('company', company, { ...shown, folded: plainFold(shown['company_name']) }, expected);
}
