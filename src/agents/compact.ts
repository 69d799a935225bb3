import type { Activity } from '../schemas/activities.ts';
import type { Contact } from '../schemas/contacts.ts';
import type { Company } from '../schemas/companies.ts';
import type { JobItem } from '../schemas/jobs.ts';
import type { List } from '../schemas/lists.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { canonicalId } from '../text/ids.ts';

/** A record with the few fields that a page of a tool shows. */
export type Row = Record<string, unknown>;

const fullName = ({ first_name, last_name }: { first_name: string; last_name: string }): string =>
  `${first_name} ${last_name}`.trim();

export const contactRow = (contact: Contact): Row => ({
  id: contact.id,
  name: fullName(contact),
  work_email: contact.work_email,
  verification_status: contact.verification_status,
  job_title: contact.job_title,
  company: contact.company.company_name,
  country: contact.location_country,
  phone: contact.mobile_phone ?? contact.phone_numbers.map((one) => one.country_code + one.number)[0],
});

export const companyRow = (company: Company): Row => ({
  id: company.id,
  name: company.company_name,
  industry: company.industry,
  size: company.size,
  locality: company.location_locality,
  country: company.location_country,
});

export const listRow = (list: List): Row => ({
  id: list.id,
  name: list.name,
  contacts_count: list.contacts_count,
  has_rules: list.rules.length > 0,
});

export const taskRow = (task: Activity): Row => ({
  id: task.id,
  title: task.title,
  body: task.body,
  due_at: task.due_at,
  contact_id: task.contact_id,
  company_id: task.company_id,
  opportunity_id: task.opportunity_id,
  assigned_to: task.assigned_to,
});

export const prospectRow = (prospect: Prospect): Row => ({
  id: prospect._id,
  name: fullName(prospect),
  job_title: prospect.job_title,
  company: prospect.job_company_name,
  locality: prospect.location_locality,
  country: prospect.location_country,
  work_email: prospect.work_email,
  mobile_phone: prospect.mobile_phone,
  score: prospect.score,
});

export const itemRow = ({ item, contact_id, status, reason, charged, result }: JobItem): Row => ({
  item,
  contact_id,
  status,
  reason,
  charged,
  ...resultRow(result),
});

function resultRow(result: JobItem['result']): Row {
  if (result && '_id' in result) return { prospect: withoutEmpty(prospectRow(result)) };
  if (result && 'changed' in result) return { prospect_id: result.prospect_id, changed: result.changed };
  if (result && 'restored' in result) return { restored: result.restored };
  return { verification: result?.status };
}

/** Removes members that say nothing: null, undefined and the empty text. */
const withoutEmpty = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => (value ?? '') !== ''));

/** Maximum size of a page (bytes of JSON). Assistants pay for each byte that they read. */
const pageBytes = 16 * 1024;

/**
 * Returns a page as JSON. Shortens its texts, but for ids, as far as the page would be larger than `pageBytes`.
 * @param beside what the page tells beside its rows
 */
export function pageText(name: string, rows: readonly Row[], nextCursor: unknown, beside: object = {}): string {
  const page = { ...beside, [name]: rows.map(withoutEmpty), next_cursor: nextCursor };
  let text = '';
  for (const most of [80, 40, 20, 10, 3]) {
    text = JSON.stringify(page, (key, value: unknown) =>
      typeof value === 'string' && key !== 'next_cursor' ? shortened(value, most) : value,
    );
    if (Buffer.byteLength(text) <= pageBytes) break;
  }
  return text;
}

function shortened(text: string, most: number): string {
  const characters = [...text];
  const isShort = characters.length <= most || canonicalId(text) !== undefined;
  return isShort ? text : `${characters.slice(0, most - 1).join('')}…`;
}
