import { Type, type Static, type TSchema } from '@sinclair/typebox';
import {
  CreatedAt,
  Enum,
  Ids,
  Instant,
  Name,
  Nullable,
  PaginateOrContinue,
  Price,
  Strict,
  Text,
  UpdatedAt,
  Uuid,
} from './base/wire.ts';

/** `HIGHT` is not a typing error: the contract has this value. */
export const priorities = ['URGENT', 'HIGHT', 'MEDIUM', 'LOW', 'NONE'] as const;

const Quantity = () => Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Number of units.', examples: [3] });
const AgreedPrice = () => Price('Agreed price of one unit, with at most 4 decimals.');

const Line = Strict(
  { id: Uuid('An existing product.'), price: AgreedPrice(), quantity: Quantity() },
  { title: 'OpportunityLine' },
);
export type Line = Static<typeof Line>;

const Detail = Type.Object(
  {
    product_id: Uuid('The product. It may have been deleted since.'),
    name: Type.String({ description: 'Name of the product.' }),
    price: AgreedPrice(),
    quantity: Quantity(),
    total: Type.Number({ description: 'price × quantity, exact.' }),
  },
  { title: 'OpportunityDetail' },
);

const writable = {
  name: Name({
    description: 'Name of the opportunity: 1–255 characters.',
    examples: ['Two engines for the Admiralty'],
  }),
  description: Text(5_000, 'What it is about. By default `""`.'),
  priority: Enum(priorities, 'How urgent it is. The spelling `HIGHT` is the literal value.'),
  stage_id: Uuid('A stage of one of the pipelines, as `POST /api/ext/stages/list` shows them.'),
  contacts_ids: Ids('Existing contacts, at most 1,000. In a PATCH they replace the current ones.'),
  user_id_assigned: Uuid('The responsible user: an id from `GET /api/ext/customer/users`.'),
  estimated_closing_date: Instant('When it will probably be decided.'),
  close_date: Instant('When it has to be decided, or was.'),
};

const companyId = Uuid('An existing company.');
const sourceId = Uuid('An id of your own, such as that of a campaign. Stored and returned without a check.');

const { contacts_ids, ...scalar } = writable;
void contacts_ids;
const kept = { ...scalar, company_id: companyId, source_id: sourceId };

/** Those with a database column of the same name. */
export const opportunityFields = Object.keys(kept) as (keyof typeof kept)[];

export const Opportunity = Type.Object(
  {
    id: Uuid('Id of the opportunity.'),
    ...writable,
    price: Type.Number({ description: 'The sum of the lines, exact. Always less than 10^11.' }),
    // The contract does not allow null here, but no other value can honestly mean "no company".
    company_id: Nullable(Uuid('The company. Null: none.')),
    source_id: Nullable(Uuid('An id of your own, as given. Null: none.')),
    details: Type.Array(Detail, { description: 'The products with price and quantity, in the order added.' }),
    created_at: CreatedAt(),
    updated_at: UpdatedAt(),
  },
  { title: 'Opportunity' },
);
export type Opportunity = Static<typeof Opportunity>;

const lines = { maxItems: 1000 };
const { description, ...required } = writable;

export const OpportunityCreate = Type.Composite(
  [
    Type.Object({
      ...required,
      products: Type.Array(Line, {
        ...lines,
        'x-distinct-ids': true,
        description: 'The products that are offered, each once. `[]`: none yet.',
      }),
    }),
    Type.Partial(Type.Object({ description, company_id: companyId, source_id: sourceId })),
  ],
  {
    additionalProperties: false,
    title: 'OpportunityCreate',
    examples: [
      {
        name: 'Two engines for the Admiralty',
        contacts_ids: ['0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b'],
        stage_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c',
        user_id_assigned: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5d',
        products: [{ id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5e', price: 1249.9, quantity: 2 }],
        estimated_closing_date: '2026-03-14T00:00:00.000Z',
        close_date: '2026-03-31T00:00:00.000Z',
        priority: 'HIGHT',
      },
    ],
  },
);
export type OpportunityCreate = Static<typeof OpportunityCreate>;

/** Either all changes are applied or none. Each product may occur only once. */
const LinesPatch = Strict(
  {
    add: Type.Optional(
      Type.Array(Line, { ...lines, description: 'Products to add. One that is there already is 409.' }),
    ),
    remove: Type.Optional(
      Type.Array(Uuid(), { ...lines, description: 'Products to remove. One that is not there is 404.' }),
    ),
    update: Type.Optional(
      Type.Array(
        Strict({
          id: Uuid('A product of the opportunity.'),
          price: Type.Optional(AgreedPrice()),
          quantity: Type.Optional(Quantity()),
        }),
        { ...lines, description: 'Products whose price or quantity changes. One that is not there is 404.' },
      ),
    ),
  },
  {
    title: 'OpportunityLinesPatch',
    description: 'Changes to the products. Either all or none are applied. Each product may occur only once.',
    'x-distinct-ids': true,
  },
);
export type LinesPatch = Static<typeof LinesPatch>;

const AnyOf = (id: TSchema, description: string) =>
  Type.Optional(Type.Unsafe<string | string[]>({ anyOf: [id, Type.Array(id, { maxItems: 100 })], description }));

/** An id, or several of which one is enough. An unknown id matches nothing. */
export const OpportunityFilters = Strict(
  {
    stage_id: AnyOf(Uuid(), 'The stage: an id, or an array of ids (any of).'),
    company_id: AnyOf(Uuid(), 'The company: an id, or an array of ids (any of).'),
    contact_id: AnyOf(Uuid(), 'One of the contacts: an id, or an array of ids (any of).'),
  },
  { title: 'OpportunityFilters', description: 'Which opportunities. Those that match every filter that is given.' },
);
export type OpportunityFilters = Static<typeof OpportunityFilters>;

export const OpportunityQuery = Strict(
  { filters: Type.Optional(OpportunityFilters), paginate: Type.Optional(PaginateOrContinue) },
  {
    title: 'OpportunityQuery',
    examples: [{ filters: { stage_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c' }, paginate: { page: 1, limit: 25 } }],
  },
);
export type OpportunityQuery = Static<typeof OpportunityQuery>;

/** Omitted fields do not change. Null clears a nullable field. */
export const OpportunityPatch = Type.Partial(
  Type.Object({
    ...writable,
    company_id: Nullable(companyId),
    source_id: Nullable(sourceId),
    products: LinesPatch,
  }),
  {
    additionalProperties: false,
    title: 'OpportunityPatch',
    examples: [
      {
        priority: 'URGENT',
        products: {
          add: [{ id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c', price: 99, quantity: 1 }],
          update: [{ id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5e', quantity: 3 }],
        },
      },
    ],
  },
);
export type OpportunityPatch = Static<typeof OpportunityPatch>;
