import { Type, type Static } from '@sinclair/typebox';
import { Enum, Ids, Instant, Name, Paginate, Strict, Text, Uuid } from './wire.ts';

/**
 * Operators in the rules of a contact list. `not_equals`, `not_contains` and `not_in` also match contacts whose field
 * is empty.
 */
export const ruleOperators = [
  'equals',
  'not_equals',
  'contains',
  'not_contains',
  'starts_with',
  'ends_with',
  'greater_than',
  'greater_or_equal',
  'less_than',
  'less_or_equal',
  'in',
  'not_in',
  'is_empty',
  'is_not_empty',
] as const;
export type RuleOperator = (typeof ruleOperators)[number];

/**
 * Maximum numbers for the rules of contact lists: rules per list, values per rule, characters per value, lists with
 * rules per customer, rules per customer.
 */
export const ruleLimits = { rules: 50, values: 100, characters: 255, lists: 500, rulesOfCustomer: 5_000 } as const;

const ruleProperties = {
  field: Text(128, { description: 'a field that contacts can be filtered by', examples: ['job_title'] }),
  operator: Enum(ruleOperators),
  value: Text(ruleLimits.values * (ruleLimits.characters + 2), {
    description:
      'parsed as the type of the field; `in` and `not_in` take several values, separated by commas; `is_empty` and `is_not_empty` ignore it',
    examples: ['engineer'],
  }),
  logic_operator: Enum(['AND', 'OR'] as const, {
    description: 'joins the rule to the rule before; AND binds tighter than OR',
  }),
};

/** A rule of a contact list, as responses show it. The rules decide which contacts are members. */
export const Rule = Type.Object(ruleProperties, { title: 'ListRule' });
export type Rule = Static<typeof Rule>;

const { field, operator, value, logic_operator } = ruleProperties;

/** A rule of a contact list, as requests send it. `logic_operator` is optional. */
const RuleGiven = Strict(
  { field, operator, value, logic_operator: Type.Optional(logic_operator) },
  { title: 'ListRuleGiven' },
);
export type RuleGiven = Static<typeof RuleGiven>;

const RulesGiven = Type.Array(RuleGiven, {
  maxItems: ruleLimits.rules,
  'x-rules': 'contacts',
  description: `a customer can have at most ${ruleLimits.lists} lists with rules, and ${ruleLimits.rulesOfCustomer} rules in all of them`,
});

/** A list of contacts, as responses show it. */
export const List = Type.Object(
  {
    id: Uuid(),
    name: Name({ examples: ['Engineers in Bristol'] }),
    description: Text(5000),
    owner_id: Uuid(),
    owner_name: Type.String(),
    source: Enum(['MANUAL', 'IMPORT', 'PROSPECT', 'RULES'] as const, {
      description: '`RULES` while the list has rules, otherwise how it was created',
    }),
    collaborators: Type.Array(Uuid()),
    rules: Type.Array(Rule),
    contacts_count: Type.Integer(),
    created_at: Instant(),
    updated_at: Instant(),
  },
  { title: 'ContactList' },
);
export type List = Static<typeof List>;

const { name, description } = List.properties;

/** Request body for creating a list of contacts. */
export const ListCreate = Strict(
  { name, description: Type.Optional(description), rules: Type.Optional(RulesGiven) },
  {
    title: 'ContactListCreate',
    examples: [
      {
        name: 'Engineers in Bristol',
        description: 'For the spring campaign',
        rules: [
          { field: 'job_title', operator: 'contains', value: 'engineer' },
          { field: 'location_locality', operator: 'equals', value: 'Bristol' },
        ],
      },
    ],
  },
);
export type ListCreate = Static<typeof ListCreate>;

/** Request body for changing a list of contacts (PATCH). Fields that are not sent do not change. */
export const ListPatch = Type.Partial(Strict({ name, description, rules: RulesGiven }), {
  additionalProperties: false,
  title: 'ContactListPatch',
  examples: [{ name: 'Engineers in Bristol', description: 'For the autumn campaign' }],
});
export type ListPatch = Static<typeof ListPatch>;

/**
 * Request body for listing the contact lists: only the page. The API contract puts the paging fields at the root of
 * this body, not inside `paginate`.
 */
export const ListQuery = Strict(
  { ...Paginate.properties, cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })) },
  { title: 'ContactListQuery', examples: [{ page: 1, limit: 25 }] },
);
export type ListQuery = Static<typeof ListQuery>;

/** Response after a list was created. The API contract allows only these two fields. */
export const ListCreated = Type.Object({ id: Uuid(), name: Type.String() }, { title: 'ContactListCreated' });

/** Request body for copying a list: the id of the existing list and the name of the copy. */
export const ListDuplicate = Strict(
  { list_id: Uuid(), new_name: name },
  {
    title: 'ContactListDuplicate',
    examples: [{ list_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', new_name: 'Engineers in Bath' }],
  },
);

/** Request body for adding contacts to a list by hand, or for removing them. */
export const MembersByHand = Strict(
  { list_id: Uuid(), contact_ids: Ids({ description: 'existing contacts' }) },
  {
    title: 'ContactListMembers',
    examples: [
      { list_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', contact_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c'] },
    ],
  },
);

/** Response after contacts were added to a list: how many were added, and how many were members already. */
export const MembersAdded = Type.Object(
  {
    success: Type.Literal(true),
    message: Type.String(),
    data: Type.Object({ added: Type.Integer(), already_members: Type.Integer() }),
  },
  { title: 'ContactListMembersAdded' },
);

/** Response after contacts were removed from a list: how many were removed. */
export const MembersRemoved = Type.Object(
  { success: Type.Literal(true), message: Type.String(), data: Type.Object({ removed: Type.Integer() }) },
  { title: 'ContactListMembersRemoved' },
);
