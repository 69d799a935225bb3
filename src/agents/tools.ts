import { Type, type Static, type TObject, type TProperties } from '@sinclair/typebox';
import { ActivityCreate } from '../schemas/activities.ts';
import { namesWhere, Strict, Uuid } from '../schemas/wire.ts';
import { companyFilterFields } from '../schemas/companies.ts';
import { ContactCreate, contactFilterFields, ContactPatch, contactTable } from '../schemas/contacts.ts';
import { indexed, operatorsOf, type FilterFields } from '../schemas/filters.ts';
import { UnlockContacts, UnlockSelectedContacts, VerifyEmail } from '../schemas/jobs.ts';
import { MembersByHand } from '../schemas/lists.ts';
import { type ProspectFilters, ProspectQuery } from '../schemas/prospects.ts';
import type { Scope } from '../schemas/scopes.ts';

export interface Tool {
  title: string;
  description: string;
  scopes: readonly Scope[];
  /** What a call does to the customer's data. Assistants see it as annotations of the Model Context Protocol. */
  effect: 'reads' | 'adds' | 'overwrites';
  input: TObject;
}

const toolPage = 50;

const limit = Type.Optional(Type.Integer({ minimum: 1, maximum: toolPage, default: 10 }));
const cursor = Type.Optional(Type.String({ maxLength: 4096 }));

const anObject = <T>(description: string) => Type.Optional(Type.Unsafe<T>({ type: 'object', description }));

const filters = (fields: FilterFields, how: string) =>
  anObject<Record<string, unknown>>(`${how} Fields: ${Object.keys(fields.types).join(', ')}, custom_fields.<key>.`);

const order = (fields: FilterFields) =>
  anObject<Record<string, string>>(
    `{field: "ASC" | "DESC"}. Newest first without it. Fastest: ${indexed(fields).join(', ')}.`,
  );

const text = (description: string) => Type.String({ minLength: 1, maxLength: 256, description });
/** Converts members of a request to arguments of a tool. Keeps only the first sentence of each description, or none. */
const brief = <P extends TProperties>(properties: P, isDescribed = true): P =>
  Object.fromEntries(
    Object.entries(properties).map(([name, { description = '', ...schema }]) => [
      name,
      isDescribed ? { ...schema, description: /^[^]*?\.(?= |$)/.exec(description)?.[0] } : schema,
    ]),
  ) as P;

const optional = <P extends TProperties>(schema: TObject<P>, isDescribed = true) =>
  brief(Type.Partial(schema).properties, isDescribed);

const spending = {
  max_credits: Type.Integer({
    minimum: 0,
    maximum: 1_000_000_000,
    description: 'The call fails, and spends nothing, if it could cost more credits than this.',
  }),
  request_id: Type.String({
    minLength: 1,
    maxLength: 255,
    description: 'A text that you choose anew for each intent: the same one returns the first answer again.',
  }),
};

const which = {
  filters: anObject<ProspectFilters>('As in search_prospects; {} is everybody.'),
  order_by: anObject<Record<string, string>>('Whom first: {"score": "DESC"} without it.'),
  ...optional(Type.Pick(UnlockContacts, ['total_records'])),
  ...optional(Type.Pick(UnlockSelectedContacts, ['ids'])),
};

const toolFields = namesWhere(contactTable, ({ isInTools }) => isInTools) as (keyof ContactPatch)[];

/**
 * Tools that assistants can call. Each tool calls one or two routes. No tool deletes, exports in bulk, or manages keys.
 */
export const tools = {
  search_contacts: {
    title: 'Search contacts',
    description:
      'Finds contacts of the CRM. Example: {"search": "miller", "filters": {"job_title": {"contains": "engineer"}}}. ' +
      'Texts are shortened; get_contact shows all.',
    scopes: ['contacts:read'],
    effect: 'reads',
    input: Strict({
      search: Type.Optional(text('Words that must all occur in the names, e-mails or the company name.')),
      filters: filters(
        contactFilterFields,
        'Conditions by field, joined by AND: a value (equal), an array (any of), or an object of ' +
          `${operatorsOf.text.join(', ')}.`,
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
      'Creates a contact. Its company is found or created. Example: {"first_name": "Ada", "last_name": "Lovelace", ' +
      '"work_email": "ada@example.com", "company": {"name": "Acme"}}. Search first: addresses may occur twice.',
    scopes: ['contacts:create'],
    effect: 'adds',
    input: Strict({
      ...brief(Type.Pick(ContactCreate, ['first_name', 'last_name', 'work_email']).properties, false),
      ...optional(Type.Pick(ContactCreate, toolFields), false),
      request_id: Type.Optional(spending.request_id),
    }),
  },
  update_contact: {
    title: 'Change a contact',
    description:
      'Changes the fields that are sent; others stay. null clears a field. Example: {"job_title": "CTO", ' +
      '"custom_fields": {"plan": "gold"}}.',
    scopes: ['contacts:update'],
    effect: 'overwrites',
    input: Strict({
      id: Uuid('Id of the contact.'),
      ...optional(Type.Pick(ContactPatch, ['first_name', 'last_name', 'work_email', ...toolFields]), false),
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
    description: 'Returns the contact lists with their size, newest first.',
    scopes: ['list_contacts:read'],
    effect: 'reads',
    input: Strict({ limit, cursor }),
  },
  add_to_list: {
    title: 'Add contacts to a list',
    description: 'Adds existing contacts to a list; members stay.',
    scopes: ['list_contact_details:update'],
    effect: 'adds',
    input: Strict(brief(MembersByHand.properties)),
  },
  add_note: {
    title: 'Add a note',
    description:
      'Adds a note, task, call, meeting or e-mail to a contact, company or opportunity. Example: {"contact_id": "0197…", ' +
      '"body": "Wants a second engine"}. Only a task has due_at.',
    scopes: ['activities:create'],
    effect: 'adds',
    input: Strict({
      ...brief(
        Type.Pick(ActivityCreate, [
          'contact_id',
          'company_id',
          'opportunity_id',
          'type',
          'title',
          'body',
          'assigned_to',
          'due_at',
          'occurred_at',
        ]).properties,
        false,
      ),
      request_id: Type.Optional(spending.request_id),
    }),
  },
  list_tasks: {
    title: 'List tasks',
    description: 'Returns open tasks, the most urgent first.',
    scopes: ['activities:read'],
    effect: 'reads',
    input: Strict({
      ...optional(Type.Pick(ActivityCreate, ['assigned_to', 'contact_id', 'opportunity_id']), false),
      company_id: Type.Optional(Uuid('Tasks of this company and its contacts.')),
      is_overdue: Type.Optional(Type.Boolean()),
      limit,
      cursor,
    }),
  },
  complete_task: {
    title: 'Complete a task',
    description: 'Marks a task as done.',
    scopes: ['activities:read', 'activities:update'],
    effect: 'overwrites',
    input: Strict({ id: Uuid('Id of the task.') }),
  },
  search_prospects: {
    title: 'Search the prospect catalog',
    description:
      'Finds people whom the customer has not unlocked yet; e-mail addresses and phone numbers are masked. ' +
      'Example: {"filters": {"job_title": ["head of purchasing"], "location_locality": ["Lyon"]}}. With all_contacts: also ' +
      'the unlocked ones, in clear. Free.',
    scopes: ['prospect:read'],
    effect: 'reads',
    input: Strict({
      ...optional(Type.Pick(ProspectQuery, ['filters', 'all_contacts'])),
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
      'Status, numbers and cost of a job; with results, also a page of them. Ask until it is ' +
      'COMPLETED, FAILED or CANCELLED. Of an approval: its status, and the job in answer.',
    scopes: ['payment_prospect:create', 'verify_email:create', 'list_contacts:read'],
    effect: 'reads',
    input: Strict({
      id: Uuid('Id of the job or approval.'),
      results: Type.Optional(Type.Boolean({ default: false, description: 'Also results.' })),
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
