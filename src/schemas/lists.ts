import { Type, type Static } from '@sinclair/typebox';
import { contactFilterFields } from './contacts.ts';
import { nameOf } from './filters.ts';
import * as wire from './wire.ts';

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

export const ruleLimits = { rules: 50, values: 100, characters: 255, lists: 500 } as const;

/** Fields that the rules of a list cannot use. With `list_id`, the members of a list would depend on another list. */
export const unruled: readonly string[] = ['list_id', 'search'];
export const ruleFields = Object.keys(contactFilterFields.types).filter((name) => !unruled.includes(name));

const ruleProperties = {
  field: nameOf(ruleFields, true, {
    maxLength: 128,
    description: 'A field that contacts can be filtered by, except `list_id` and `search`; also `custom_fields.<key>`.',
    examples: ['job_title'],
  }),
  operator: wire.Enum(
    ruleOperators,
    'How to compare. `not_equals`, `not_contains` and `not_in` also match contacts whose field is empty.',
  ),
  value: wire.Text(ruleLimits.values * (ruleLimits.characters + 2), {
    description:
      'Read as the type of the field. `in` and `not_in` take several values, separated by commas. `is_empty` and `is_not_empty` ignore it.',
    examples: ['engineer'],
  }),
  logic_operator: wire.Enum(['AND', 'OR'] as const, {
    description: 'Joins the rule to the rule before it; AND by default. AND binds tighter than OR.',
  }),
};

export const Rule = Type.Object(ruleProperties, { title: 'ListRule' });
export type Rule = Static<typeof Rule>;

const { field, operator, value, logic_operator } = ruleProperties;

const RuleGiven = wire.Strict(
  { field, operator, value, logic_operator: Type.Optional(logic_operator) },
  { title: 'ListRuleGiven' },
);
export type RuleGiven = Static<typeof RuleGiven>;

const RulesGiven = Type.Array(RuleGiven, {
  maxItems: ruleLimits.rules,
  'x-rules': true,
  description:
    `Contacts that match the rules are members of the list. At most ${ruleLimits.rules}; a customer can have ` +
    `${ruleLimits.lists} lists with rules.`,
});

export const List = wire.Named('ContactList', {
  id: wire.Uuid('Id of the list.'),
  name: wire.Name({ description: 'Name of the list: 1–255 characters.', examples: ['Engineers in Bristol'] }),
  description: wire.Text(5000, {
    description: 'What the list is for. By default `""`.',
    examples: ['For the spring campaign'],
  }),
  owner_id: wire.Uuid('The user who created the list, or who created the API key that did.'),
  owner_name: Type.String({ description: 'Name of that user.' }),
  source: wire.Enum(['MANUAL', 'IMPORT', 'PROSPECT', 'RULES'] as const, {
    description: '`RULES` while the list has rules, otherwise how it was created.',
  }),
  collaborators: Type.Array(wire.Uuid(), { description: 'Other users of the list. Empty for now.' }),
  rules: Type.Array(Rule, {
    description: 'Contacts that match these rules are members. `[]`: members by hand only.',
  }),
  contacts_count: Type.Integer({ description: 'Number of members, by hand and by rules.' }),
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
});
export type List = Static<typeof List>;

export const ListedList = wire.Named('ListedContactList', {
  ...List.properties,
  counted_at: wire.Nullable(
    wire.Instant({
      description:
        'When `contacts_count` was counted: now, but for lists with rules of a customer with more than 20,000 contacts. ' +
        'Null if it was not counted since the rules changed.',
    }),
  ),
});
export type ListedList = Static<typeof ListedList>;

const { name, description } = List.properties;

export const ListCreate = wire.Body(
  'ContactListCreate',
  [
    {
      name: 'Engineers in Bristol',
      description: 'For the spring campaign',
      rules: [
        { field: 'job_title', operator: 'contains', value: 'engineer' },
        { field: 'location_locality', operator: 'equals', value: 'Bristol' },
      ],
    },
  ],
  { name, description: Type.Optional(description), rules: Type.Optional(RulesGiven) },
);
export type ListCreate = Static<typeof ListCreate>;

export const ListPatch = wire.PartialBody(
  'ContactListPatch',
  [{ name: 'Engineers in Bristol', description: 'For the autumn campaign' }],
  { name, description, rules: RulesGiven },
);
export type ListPatch = Static<typeof ListPatch>;

export const ListQuery = wire.Strict(
  { ...wire.Paginate.properties, cursor: Type.Optional(wire.Cursor({ minLength: 1, maxLength: 2048 })) },
  { title: 'ContactListQuery', examples: [{ page: 1, limit: 25 }] },
);
export type ListQuery = Static<typeof ListQuery>;

export const ListCreated = Type.Object(
  { id: wire.Uuid('Id of the new list.'), name: Type.String({ description: 'Its name, trimmed.' }) },
  { title: 'ContactListCreated' },
);

export const ListDuplicate = wire.Body(
  'ContactListDuplicate',
  [{ list_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', new_name: 'Engineers in Bath' }],
  {
    list_id: wire.Uuid('The list to copy.'),
    new_name: { ...name, description: 'Name of the copy: 1–255 characters.' },
  },
);

export const MembersByHand = wire.Body(
  'ContactListMembers',
  [{ list_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', contact_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c'] }],
  { list_id: wire.Uuid('The list.'), contact_ids: wire.Ids('Existing contacts, at most 1,000.') },
);

export const MembersAdded = wire.DoneWith(
  'ContactListMembersAdded',
  {
    added: Type.Integer({ description: 'Contacts that are new in the list.' }),
    already_members: Type.Integer({ description: 'Contacts that were members before, by hand or by rules.' }),
  },
  'How many contacts were added.',
);

export const MembersRemoved = wire.DoneWith(
  'ContactListMembersRemoved',
  { removed: Type.Integer({ description: 'Contacts that had been added by hand, and no longer are.' }) },
  'How many contacts were removed.',
);
