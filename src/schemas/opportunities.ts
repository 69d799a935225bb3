import { Type, type Static } from '@sinclair/typebox';
import * as wire from './wire.ts';
import { Filters, filterFieldsOf, listBodies, textOfFilters } from './filters.ts';

const stageStatuses = ['OPEN', 'WON', 'LOST'] as const;
export type StageStatus = (typeof stageStatuses)[number];

export const visibilities = ['PUBLIC', 'PRIVATE'] as const;
export type Visibility = (typeof visibilities)[number];

const stageProperties = {
  id: wire.Uuid('Id of the stage.'),
  name: Type.String({ description: 'Name of the stage.', examples: ['Qualified'] }),
  order: Type.Integer({ description: 'Position in the pipeline. Stages are sorted by it.', examples: [2] }),
  pipeline_id: wire.Uuid('The pipeline that the stage belongs to.'),
  probability_percentage: Type.Integer({
    minimum: 0,
    maximum: 100,
    description: 'How likely an opportunity in this stage is to be won, in per cent.',
  }),
  status: wire.Enum(stageStatuses, 'Whether opportunities in this stage are open, won or lost.'),
};

export const Stage = Type.Object(stageProperties, { title: 'Stage' });

export const StageListItem = wire.Named('StageListItem', {
  ...stageProperties,
  total_opportunities: Type.Integer({ minimum: 0, description: 'Number of opportunities in the stage.' }),
});
export type StageListItem = Static<typeof StageListItem>;

export const StageQuery = wire.Body(
  'StageQuery',
  [{ pipeline_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', paginate: { page: 1, limit: 25 } }],
  { pipeline_id: wire.Uuid('The pipeline whose stages are listed.'), paginate: Type.Optional(wire.PaginateOrContinue) },
);
export type StageQuery = Static<typeof StageQuery>;

const listed = {
  id: wire.Uuid('Id of the pipeline.'),
  name: Type.String({ description: 'Name of the pipeline.', examples: ['Sales'] }),
  description: Type.String({ description: 'What the pipeline is for.' }),
  currency: Type.String({ description: 'ISO 4217 currency code.', examples: ['USD'] }),
  active: Type.Boolean({ description: 'Whether the pipeline is in use.' }),
};

export const PipelineListItem = Type.Object(listed, { title: 'PipelineListItem' });
export type PipelineListItem = Static<typeof PipelineListItem>;

export const Pipeline = wire.Named('Pipeline', {
  ...listed,
  visibility: wire.Enum(visibilities, 'Who sees the pipeline in the application. API keys see every one.'),
  stages: Type.Array(Stage, { description: 'The stages, sorted by `order`.' }),
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
});
export type Pipeline = Static<typeof Pipeline>;

export const maxStages = 30;

const StageGiven = wire.Strict({
  id: Type.Optional(wire.Uuid()),
  name: wire.Name(),
  probability_percentage: stageProperties.probability_percentage,
  status: stageProperties.status,
});

export const PipelineCreate = wire.Strict({
  name: wire.Name(),
  currency: wire.Currency(),
  visibility: Pipeline.properties.visibility,
  stages: Type.Array(StageGiven, { minItems: 1, maxItems: maxStages }),
});
export type PipelineCreate = Static<typeof PipelineCreate>;

/**
 * Body that changes a pipeline. Stages that are missing in `stages` are deleted. The currency cannot change, because
 * the prices of opportunities are in it.
 */
export const PipelinePatch = Type.Omit(PipelineCreate, ['currency'], { additionalProperties: false });
export type PipelinePatch = Static<typeof PipelinePatch>;

/** Priorities of an opportunity. `HIGHT` is not a typing error: the contract has this value. */
export const priorities = ['URGENT', 'HIGHT', 'MEDIUM', 'LOW', 'NONE'] as const;

const Quantity = () => Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Number of units.', examples: [3] });
const AgreedPrice = () => wire.Price('Agreed price of one unit, with at most 4 decimals.');

export const Line = wire.Strict(
  { id: wire.Uuid('An existing product.'), price: AgreedPrice(), quantity: Quantity() },
  { title: 'OpportunityLine' },
);
export type Line = Static<typeof Line>;

export const Detail = wire.Named('OpportunityDetail', {
  product_id: wire.Uuid('The product. It may have been deleted since.'),
  name: Type.String({ description: 'Name of the product.' }),
  price: AgreedPrice(),
  quantity: Quantity(),
  total: Type.Number({ description: 'price × quantity, exact.' }),
});
export type Detail = Static<typeof Detail>;

const writable = {
  name: wire.Name({
    description: 'Name of the opportunity: 1–255 characters.',
    examples: ['Two engines for the Admiralty'],
  }),
  description: wire.Text(5_000, 'What it is about. By default `""`.'),
  priority: wire.Enum(priorities, 'How urgent it is. The spelling `HIGHT` is the literal value.'),
  stage_id: wire.Uuid('A stage of one of the pipelines, as `POST /api/ext/stages/list` shows them.'),
  contacts_ids: wire.Ids('Existing contacts, at most 1,000. In a PATCH they replace the current ones.'),
  user_id_assigned: wire.Uuid('The responsible user: an id from `GET /api/ext/customer/users`.'),
  estimated_closing_date: wire.Instant('When it will probably be decided.'),
  close_date: wire.Instant('When it has to be decided, or was.'),
  external_id: wire.ExternalId(),
};

const companyId = wire.Uuid('An existing company.');
const sourceId = wire.Uuid('An id of your own, such as that of a campaign. Stored and returned without a check.');

const { contacts_ids: _contacts, ...scalar } = writable;
const kept = { ...scalar, company_id: companyId, source_id: sourceId };

export const opportunityFields = Object.keys(kept) as (keyof typeof kept)[];

export const Opportunity = wire.Named('Opportunity', {
  id: wire.Uuid('Id of the opportunity.'),
  ...writable,
  price: Type.Number({
    description:
      'The sum of the lines, exact, in the currency of the pipeline: that of a product is not converted. Always less than 10^11.',
  }),
  // The contract does not allow null here, but no other value can honestly mean "no company".
  company_id: wire.Nullable(wire.Uuid('The company. Null: none.')),
  source_id: wire.Nullable(wire.Uuid('An id of your own, as given. Null: none.')),
  details: Type.Array(Detail, { description: 'The products with price and quantity, in the order added.' }),
  created_at: wire.CreatedAt(),
  updated_at: wire.UpdatedAt(),
});
export type Opportunity = Static<typeof Opportunity>;

export const opportunityTable = {
  id: { label: 'Id', filter: 'uuid', isInternal: true },
  external_id: { label: 'Your own id', filter: 'exact', isInternal: true },
  name: { label: 'Name', filter: 'text' },
  description: { label: 'Description', filter: 'text' },
  price: { label: 'Value', filter: 'number' },
  priority: { label: 'Priority', filter: 'text' },
  pipeline_name: { label: 'Pipeline', scope: 'pipelines:read' },
  stage_name: { label: 'Stage', scope: 'stages:read' },
  company_name: { label: 'Company', scope: 'companies:read' },
  contact_names: { label: 'Contacts', scope: 'contacts:read' },
  assigned_email: { label: 'Assigned to', scope: 'customer:read' },
  product_names: { label: 'Products', scope: 'products:read' },
  stage_id: { label: 'Stage', references: 'stages', filter: 'uuid', isInternal: true },
  pipeline_id: { label: 'Pipeline', filter: 'uuid', isUnsorted: true, isInternal: true },
  contacts_ids: { label: 'Contacts', references: 'contacts', isInternal: true },
  contact_id: { label: 'Contact', references: 'contacts', filter: 'uuid', isUnsorted: true, isInternal: true },
  company_id: { label: 'Company', references: 'company', filter: 'uuid', isInternal: true },
  user_id_assigned: { label: 'Assigned to', references: 'users', filter: 'uuid', isInternal: true },
  estimated_closing_date: { label: 'Expected to close', filter: 'instant' },
  close_date: { label: 'Close date', filter: 'instant' },
  source_id: { label: 'Your own source', filter: 'uuid', isInternal: true },
  details: { label: 'Products', isInternal: true },
  created_at: { label: 'Created', filter: 'instant', isIndexed: true },
  updated_at: { label: 'Last changed', filter: 'instant', isIndexed: true },
} as const satisfies wire.FieldTable<keyof Opportunity>;

const lines = { maxItems: 1000 };
const Lines = (description: string) => Type.Array(Line, { ...lines, 'x-distinct-ids': true, description });
const { description, external_id, ...required } = writable;

export const OpportunityCreate = Type.Composite(
  [
    Type.Object({
      ...required,
      products: Lines('The products that are offered, each once. `[]`: none yet.'),
    }),
    Type.Partial(Type.Object({ description, external_id, company_id: companyId, source_id: sourceId })),
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

/** Changes of an opportunity's products. All are applied or none. Each product may occur only once. */
const LinesPatch = wire.Strict(
  {
    add: Type.Optional(
      Type.Array(Line, { ...lines, description: 'Products to add. One that is there already is 409.' }),
    ),
    remove: Type.Optional(
      Type.Array(wire.Uuid(), { ...lines, description: 'Products to remove. One that is not there is 404.' }),
    ),
    update: Type.Optional(
      Type.Array(
        wire.Strict({
          id: wire.Uuid('A product of the opportunity.'),
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

export const opportunityFilterFields = filterFieldsOf('opportunities', 'Opportunity', opportunityTable, false);
const example = { stage_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c', price: { gte: 1000 } };
export const OpportunityFilters = Filters(
  opportunityFilterFields,
  `${textOfFilters()}\n\`contact_id\` is one of its contacts, \`pipeline_id\` that of its stage.`,
  example,
);

export const { query: OpportunityQuery } = listBodies(opportunityFilterFields, OpportunityFilters, {
  filters: example,
  order: { close_date: 'ASC' },
  orderBy: ['price', 'close_date'],
});

export const OpportunityPatch = wire.PartialBody(
  'OpportunityPatch',
  [
    {
      priority: 'URGENT',
      products: {
        add: [{ id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5c', price: 99, quantity: 1 }],
        update: [{ id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5e', quantity: 3 }],
      },
    },
  ],
  {
    ...writable,
    company_id: wire.Nullable(companyId),
    source_id: wire.Nullable(sourceId),
    products: LinesPatch,
  },
);
export const LinesOrPatch = Type.Union([LinesPatch, Lines('All lines that the opportunity then has, in their order.')]);

export type OpportunityPatch = Omit<Static<typeof OpportunityPatch>, 'products'> & { products?: LinesPatch | Line[] };
