import { Type, type Static } from '@sinclair/typebox';
import { Enum, Ids, Instant, Name, Paginate, Strict, Text, Uuid } from './wire.ts';

/** How a rule compares. The negated ones match empty values too. */
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

/** How much the rules of one list may ask, and how many lists with rules, and rules in all of them, a customer may have. */
export const ruleLimits = { rules: 50, values: 100, characters: 255, lists: 500, rulesOfCustomer: 5_000 } as const;

const ruleProperties = {
  field: Text(128, { description: 'a field that contacts can be filtered by', examples: ['job_title'] }),
  operator: Enum(ruleOperators),
  value: Text(ruleLimits.values * (ruleLimits.characters + 2), {
    description:
      'read as the type of the field; for `in` and `not_in` several, separated by commas; `is_empty` and `is_not_empty` look at none',
    examples: ['engineer'],
  }),
  logic_operator: Enum(['AND', 'OR'] as const, { description: 'joins the rule to the one before; AND binds tighter' }),
};

/** A rule of a list. */
export const Rule = Type.Object(ruleProperties, { title: 'ListRule' });
export type Rule = Static<typeof Rule>;

const { field, operator, value, logic_operator } = ruleProperties;

/** A rule as it is given. */
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

/** A list of contacts. */
export const List = Type.Object(
  {
    id: Uuid(),
    name: Name({ examples: ['Engineers in Bristol'] }),
    description: Text(5000),
    owner_id: Uuid(),
    owner_name: Type.String(),
    source: Enum(['MANUAL', 'IMPORT', 'PROSPECT', 'RULES'] as const, {
      description: '`RULES` while the list has rules, else how it was made',
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

/** A new list. */
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

/** Changes of a list: only what is sent changes. */
export const ListPatch = Type.Partial(Strict({ name, description, rules: RulesGiven }), {
  additionalProperties: false,
  title: 'ContactListPatch',
  examples: [{ name: 'Engineers in Bristol', description: 'For the autumn campaign' }],
});
export type ListPatch = Static<typeof ListPatch>;

/** Which page. The contract has these at the body root here, not inside `paginate`. */
export const ListQuery = Strict(
  { ...Paginate.properties, cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 2048 })) },
  { title: 'ContactListQuery', examples: [{ page: 1, limit: 25 }] },
);
export type ListQuery = Static<typeof ListQuery>;

/** Answer of POST /list-contact: just these two, as the contract has it. */
export const ListCreated = Type.Object({ id: Uuid(), name: Type.String() }, { title: 'ContactListCreated' });

/** Which list to copy, and what to call the copy. */
export const ListDuplicate = Strict(
  { list_id: Uuid(), new_name: name },
  {
    title: 'ContactListDuplicate',
    examples: [{ list_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', new_name: 'Engineers in Bath' }],
  },
);

/** Contacts to put into a list or to take out. */
export const MembersByHand = Strict(
  { list_id: Uuid(), contact_ids: Ids({ description: 'existing contacts' }) },
  {
    title: 'ContactListMembers',
    examples: [
      { list_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', contact_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c'] },
    ],
  },
);

/** Answer of add-contacts. */
export const MembersAdded = Type.Object(
  {
    success: Type.Literal(true),
    message: Type.String(),
    data: Type.Object({ added: Type.Integer(), already_members: Type.Integer() }),
  },
  { title: 'ContactListMembersAdded' },
);

/** Answer of remove-contacts. */
export const MembersRemoved = Type.Object(
  { success: Type.Literal(true), message: Type.String(), data: Type.Object({ removed: Type.Integer() }) },
  { title: 'ContactListMembersRemoved' },
);
