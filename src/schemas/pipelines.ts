import { Type, type Static } from '@sinclair/typebox';
import { CreatedAt, Currency, Enum, Name, PaginateOrContinue, Strict, UpdatedAt, Uuid } from './base/wire.ts';

/** Also applies to all opportunities in the stage. */
export const stageStatuses = ['OPEN', 'WON', 'LOST'] as const;
export type StageStatus = (typeof stageStatuses)[number];

export const visibilities = ['PUBLIC', 'PRIVATE'] as const;
export type Visibility = (typeof visibilities)[number];

const stageProperties = {
  id: Uuid('Id of the stage.'),
  name: Type.String({ description: 'Name of the stage.', examples: ['Qualified'] }),
  order: Type.Integer({ description: 'Position in the pipeline. Stages are sorted by it.', examples: [2] }),
  pipeline_id: Uuid('The pipeline that the stage belongs to.'),
  probability_percentage: Type.Integer({
    minimum: 0,
    maximum: 100,
    description: 'How likely an opportunity in this stage is to be won, in per cent.',
  }),
  status: Enum(stageStatuses, 'Whether opportunities in this stage are open, won or lost.'),
};

export const Stage = Type.Object(stageProperties, { title: 'Stage' });

export const StageListItem = Type.Object(
  {
    ...stageProperties,
    total_opportunities: Type.Integer({ minimum: 0, description: 'Number of opportunities in the stage.' }),
  },
  { title: 'StageListItem' },
);
export type StageListItem = Static<typeof StageListItem>;

export const StageQuery = Strict(
  { pipeline_id: Uuid('The pipeline whose stages are listed.'), paginate: Type.Optional(PaginateOrContinue) },
  {
    title: 'StageQuery',
    examples: [{ pipeline_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', paginate: { page: 1, limit: 25 } }],
  },
);
export type StageQuery = Static<typeof StageQuery>;

const listed = {
  id: Uuid('Id of the pipeline.'),
  name: Type.String({ description: 'Name of the pipeline.', examples: ['Sales'] }),
  description: Type.String({ description: 'What the pipeline is for.' }),
  currency: Type.String({ description: 'ISO 4217 currency code.', examples: ['USD'] }),
  active: Type.Boolean({ description: 'Whether the pipeline is in use.' }),
};

export const PipelineListItem = Type.Object(listed, { title: 'PipelineListItem' });
export type PipelineListItem = Static<typeof PipelineListItem>;

export const Pipeline = Type.Object(
  {
    ...listed,
    visibility: Enum(visibilities, 'Who sees the pipeline in the application. API keys see every one.'),
    stages: Type.Array(Stage, { description: 'The stages, sorted by `order`.' }),
    created_at: CreatedAt(),
    updated_at: UpdatedAt(),
  },
  { title: 'Pipeline' },
);
export type Pipeline = Static<typeof Pipeline>;

/** Most stages of a pipeline that a form makes. */
export const maxStages = 30;

const StageGiven = Strict({
  /** Of a stage that exists. */
  id: Type.Optional(Uuid()),
  name: Name(),
  probability_percentage: stageProperties.probability_percentage,
  status: stageProperties.status,
});

/** A pipeline as an admin makes it. Its currency stays: the prices of its opportunities are in it. */
export const PipelineCreate = Strict({
  name: Name(),
  currency: Currency(),
  visibility: Pipeline.properties.visibility,
  stages: Type.Array(StageGiven, { minItems: 1, maxItems: maxStages }),
});
export type PipelineCreate = Static<typeof PipelineCreate>;

/** `stages` in their order. Those that are not among them are deleted. */
export const PipelinePatch = Type.Omit(PipelineCreate, ['currency'], { additionalProperties: false });
export type PipelinePatch = Static<typeof PipelinePatch>;
