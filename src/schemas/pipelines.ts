import { Type, type Static } from '@sinclair/typebox';
import { Enum, Instant, Paginate, Strict, Uuid } from './wire.ts';

/** Possible statuses of a stage. All opportunities in a stage have its status. */
export const stageStatuses = ['OPEN', 'WON', 'LOST'] as const;
export type StageStatus = (typeof stageStatuses)[number];

/** Possible visibilities of a pipeline. */
export const visibilities = ['PUBLIC', 'PRIVATE'] as const;
export type Visibility = (typeof visibilities)[number];

const stageProperties = {
  id: Uuid(),
  name: Type.String({ examples: ['Qualified'] }),
  order: Type.Integer({ examples: [2] }),
  pipeline_id: Uuid(),
  probability_percentage: Type.Integer({ minimum: 0, maximum: 100 }),
  status: Enum(stageStatuses),
};

/** A stage of a pipeline, as responses show it. */
export const Stage = Type.Object(stageProperties, { title: 'Stage' });
export type Stage = Static<typeof Stage>;

/** A stage in the list of stages, with the number of opportunities in it. */
export const StageListItem = Type.Object(
  { ...stageProperties, total_opportunities: Type.Integer({ minimum: 0 }) },
  { title: 'StageListItem' },
);
export type StageListItem = Static<typeof StageListItem>;

/** Request body of the list of stages: the pipeline and the page. */
export const StageQuery = Strict(
  { pipeline_id: Uuid(), paginate: Type.Optional(Paginate) },
  {
    title: 'StageQuery',
    examples: [{ pipeline_id: '0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b', paginate: { page: 1, limit: 25 } }],
  },
);
export type StageQuery = Static<typeof StageQuery>;

const listed = {
  id: Uuid(),
  name: Type.String({ examples: ['Sales'] }),
  description: Type.String(),
  currency: Type.String({ examples: ['USD'] }),
  active: Type.Boolean(),
};

/** A pipeline in the list of pipelines. The API contract allows only these fields. */
export const PipelineListItem = Type.Object(listed, { title: 'PipelineListItem' });
export type PipelineListItem = Static<typeof PipelineListItem>;

/** A single pipeline with its stages. The stages are sorted by their field `order`. */
export const Pipeline = Type.Object(
  {
    ...listed,
    visibility: Enum(visibilities),
    stages: Type.Array(Stage),
    created_at: Instant(),
    updated_at: Instant(),
  },
  { title: 'Pipeline' },
);
export type Pipeline = Static<typeof Pipeline>;
