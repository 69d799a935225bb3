import { Type, type Static, type TObject, type TProperties } from '@sinclair/typebox';
import { ContactCreate, ContactPatch } from '../schemas/contacts.ts';
import { companyFilterFields, contactFilterFields, orderable, type FilterFields } from '../schemas/filters.ts';
import { UnlockContacts, UnlockSelectedContacts, VerifyEmail } from '../schemas/jobs.ts';
import { MembersByHand } from '../schemas/lists.ts';
import { ProspectFilters, ProspectQuery } from '../schemas/prospects.ts';
import type { Scope } from '../schemas/base/scopes.ts';
import { Strict, Uuid } from '../schemas/base/wire.ts';

/** What a program that works for a person, such as an assistant, is told of a tool. */
export interface Tool {
  title: string;
  description: string;
  /** One of these scopes is enough. A key without any of them is not offered the tool. */
  scopes: readonly Scope[];
  /** Of the Model Context Protocol: what a call does to the customer's data. */
  effect: 'reads' | 'adds' | 'overwrites';
  input: TObject;
}

/** Most records on a page of a tool. */
export const toolPage = 50;

const limit = Type.Optional(Type.Integer({ minimum: 1, maximum: toolPage, default: 10 }));
const cursor = Type.Optional(Type.String({ maxLength: 4096, description: '`next_cursor` of the page before.' }));

const anObject = <T>(description: string) => Type.Optional(Type.Unsafe<T>({ type: 'object', description }));

const filters = (fields: FilterFields, how: string) =>
  anObject<Record<string, unknown>>(`${how} Fields: ${Object.keys(fields.types).join(', ')}, custom_fields.<key>.`);

const order = (fields: FilterFields) =>
  anObject<Record<string, string>>(
    `{field: "ASC" | "DESC"}. Newest first without it. Fastest: ${orderable(fields)
      .filter((name) => ['created_at', 'updated_at', 'last_name', 'company_name', 'score'].includes(name))
      .join(', ')}.`,
  );

const text = (description: string) => Type.String({ minLength: 1, maxLength: 256, description });
/** Returns arguments that are members of a request, each with the first sentence of its description, or without any. */
const brief = <P extends TProperties>(properties: P, isDescribed = true): P =>
  Object.fromEntries(
    Object.entries(properties).map(([name, { description = '', ...schema }]) => [
      name,
      isDescribed ? { ...schema, description: /^[^]*?\.(?= |$)/.exec(description)?.[0] } : schema,
    ]),
  ) as P;

const optional = <P extends TProperties>(schema: TObject<P>) => brief(Type.Partial(schema).properties);

const spending = {
  max_credits: Type.Integer({
    minimum: 0,
    maximum: 1_000_000_000,
    description: 'The call fails, and spends nothing, if it could cost more credits than this.',
  }),
  request_id: Type.String({
    minLength: 1,
    maxLength: 255,
    description:
      'A text that you choose anew for each intent. The same one with the same arguments returns the first answer again.',
  }),
};

const which = {
  filters: anObject<ProspectFilters>('As in search_prospects; {} is everybody.'),
  order_by: anObject<Record<string, string>>('Whom first: {"score": "DESC"} without it.'),
  ...optional(Type.Pick(UnlockContacts, ['total_records'])),
  ...optional(Type.Pick(UnlockSelectedContacts, ['ids'])),
};

/** The tools by name. Each calls one route, or two. None deletes, exports in bulk, or touches keys. */
export const tools = {
  search_contacts: {
    title: 'Search contacts',
    description:
      'Finds contacts of the CRM. Example: {"search": "miller", "filters": {"location_country": ["DE", "AT"]}, "limit": 10}. ' +
      'Texts are shortened; get_contact shows all of one contact.',
    scopes: ['contacts:read'],
    effect: 'reads',
    input: Strict({
      search: Type.Optional(text('Words that must all occur in the names, e-mails or the company name.')),
      filters: filters(
        contactFilterFields,
        'Conditions by field, joined by AND: a value (equal), an array (any of), or an object of eq, ne, in, not_in, contains, ' +
          'not_contains, starts_with, ends_with, gt, gte, lt, lte, between, is_null. Example: {"job_title": {"contains": "engineer"}}.',
      ),
      order_by: order(contactFilterFields),
      limit,
      cursor,
    }),
  },
  get_contact: {
    title: 'Read a contact',
    description: 'Returns every field of one contact.',
    scopes: ['contacts:read'],
    effect: 'reads',
    input: Strict({ id: Uuid('Id of the contact.') }),
  },
  create_contact: {
    title: 'Create a contact',
    description:
      'Creates a contact. Its company is found by name or created. Example: {"first_name": "Ada", "last_name": "Lovelace", ' +
      '"work_email": "ada@example.com", "company": {"name": "Analytical Engines"}}. Search first: addresses may occur twice.',
    scopes: ['contacts:create'],
    effect: 'adds',
    input: Strict({
      ...brief(Type.Pick(ContactCreate, ['first_name', 'last_name', 'work_email']).properties),
      ...optional(
        Type.Pick(ContactCreate, [
          'phone_numbers',
          'job_title',
          'company',
          'list_ids',
          'location_country',
          'location_locality',
          'industry',
          'profnet_url',
          'external_id',
          'custom_fields',
        ]),
      ),
      request_id: Type.Optional(spending.request_id),
    }),
  },
  update_contact: {
    title: 'Change a contact',
    description:
      'Changes the fields that are sent; others stay. null clears a field. Fields as in create_contact. Example: {"id": "0197…", "job_title": "CTO", ' +
      '"custom_fields": {"plan": "gold"}}.',
    scopes: ['contacts:update'],
    effect: 'overwrites',
    input: Strict({
      id: Uuid('Id of the contact.'),
      ...brief(
        Type.Pick(ContactPatch, [
          'first_name',
          'last_name',
          'work_email',
          'phone_numbers',
          'mobile_phone',
          'job_title',
          'company',
          'location_country',
          'location_locality',
          'industry',
          'profnet_url',
          'custom_fields',
        ]).properties,
        false,
      ),
    }),
  },
  search_companies: {
    title: 'Search companies',
    description: 'Finds companies of the CRM. Example: {"search": "engines", "filters": {"location_country": "GB"}}.',
    scopes: ['companies:read'],
    effect: 'reads',
    input: Strict({
      search: Type.Optional(text('Words that must all occur in the name.')),
      filters: filters(companyFilterFields, 'As in search_contacts.'),
      order_by: order(companyFilterFields),
      limit,
      cursor,
    }),
  },
  list_lists: {
    title: 'List the contact lists',
    description: 'Returns the contact lists with their number of members, newest first.',
    scopes: ['list_contacts:read'],
    effect: 'reads',
    input: Strict({ limit, cursor }),
  },
  add_to_list: {
    title: 'Add contacts to a list',
    description: 'Adds existing contacts to a list. A contact that is in it already is not an error.',
    scopes: ['list_contact_details:update'],
    effect: 'adds',
    input: Strict(brief(MembersByHand.properties)),
  },
  search_prospects: {
    title: 'Search the prospect catalog',
    description:
      'Finds people in the catalog whom the customer has not unlocked yet; e-mail addresses and phone numbers are masked. ' +
      'Example: {"filters": {"job_title": ["head of purchasing"], "location_locality": ["Lyon"]}}. With all_contacts: also ' +
      'the unlocked ones, in clear. Free.',
    scopes: ['prospect:read'],
    effect: 'reads',
    input: Strict({
      filters: Type.Optional(ProspectFilters),
      ...optional(Type.Pick(ProspectQuery, ['all_contacts'])),
      limit: Type.Optional(Type.Unsafe<number>({ type: 'integer', enum: [10, 25, 50], default: 10 })),
      cursor,
    }),
  },
  estimate_unlock: {
    title: 'Price of an unlock',
    description:
      'Returns how many prospects match, what unlocking them would cost at most, and how many credits are available. Nothing ' +
      'is spent. Takes filters with total_records (the most people to unlock), or ids.',
    scopes: ['payment_prospect:create'],
    effect: 'reads',
    input: Strict(which),
  },
  unlock_prospects: {
    title: 'Unlock prospects',
    description:
      'Spends credits: starts a job that unlocks prospects, by filters with total_records, or by ids. Example: {"filters": ' +
      '{"job_title": ["head of purchasing"]}, "total_records": 5, "max_credits": 5, "request_id": "lyon-buyers-1"}. Then ' +
      'ask job_status. With sync_crm the people become contacts.',
    scopes: ['payment_prospect:create'],
    effect: 'overwrites',
    input: Strict({ ...which, ...optional(Type.Pick(UnlockContacts, ['sync_crm'])), ...spending }),
  },
  verify_emails: {
    title: 'Verify e-mail addresses',
    description:
      'Spends credits: starts a job that checks e-mail addresses, one credit each at most. Then ask job_status. With ' +
      'sync_crm the status is written to the contacts named by contact_id.',
    scopes: ['verify_email:create'],
    effect: 'overwrites',
    input: Strict({ ...brief(Type.Pick(VerifyEmail, ['emails', 'sync_crm']).properties), ...spending }),
  },
  job_status: {
    title: 'Progress and results of a job',
    description:
      'Returns the status, numbers and cost of a job; with results, also one page of what it found. Ask again until status ' +
      'is COMPLETED, FAILED or CANCELLED.',
    scopes: ['payment_prospect:create', 'verify_email:create', 'list_contacts:read'],
    effect: 'reads',
    input: Strict({
      id: Uuid('Id of the job.'),
      results: Type.Optional(Type.Boolean({ default: false, description: 'Also return results.' })),
      limit,
      cursor,
    }),
  },
  credits: {
    title: 'Credits',
    description: 'Returns the credits that can be spent, by pool: subscription pays unlocks, verification pays checks.',
    scopes: ['customer:read'],
    effect: 'reads',
    input: Strict({}),
  },
} as const satisfies Record<string, Tool>;

export type ToolName = keyof typeof tools;

export type Arguments<N extends ToolName> = Static<(typeof tools)[N]['input']>;
